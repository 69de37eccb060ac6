#include "allocator/book_trial.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "allocator/planned_allocator.h"
#include "device/counting_memory.h"
#include "device/ledger_memory.h"
#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Steps before the adoption, at most. A guess.
constexpr std::size_t kWarmUpSteps = 4;
// More than any device has.
constexpr std::size_t kCapacityBytes = std::size_t{1} << 50;
// Bounds on terms and logs: pages of the live peak, and live bytes in a trial as a multiple of it,
// since guests may be counted twice. No device has as many pages.
constexpr std::size_t kMostPages = std::size_t{1} << 22;
constexpr std::int64_t kMostOfPeak = 4;

std::int64_t block_bytes(std::int64_t bytes) {
    return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(bytes), kBlockAlignment));
}

using Logs = std::span<const std::span<const LogEntry>>;

template <class Visit>
void for_each(Logs logs, const Visit& visit) {
    for (const std::span<const LogEntry> log : logs) {
        for (const LogEntry& entry : log) visit(entry);
    }
}

// A kind of the requests between steps: one for each guest, at its offset.
Book book_of(const std::vector<Guest>& guests, std::size_t arena_bytes) {
    KindPlan kind{.label = kBetweenSteps,
                  .stream = std::vector<Stream>(guests.size()),
                  .least = {},
                  .most = {},
                  .offset = {},
                  .spare = std::vector<std::int64_t>(guests.size(), kNoPlace),
                  .handed_over = std::vector<std::uint8_t>(guests.size())};
    for (const Guest& guest : guests) {
        kind.least.push_back(guest.bytes);
        kind.most.push_back(guest.bytes);
        kind.offset.push_back(guest.offset);
    }
    return {{std::move(kind)}, arena_bytes};
}

class Trial {
  public:
    explicit Trial(const TrialTerms& terms)
        : live_peak_(terms.live_peak),
          ledger_(terms.page_bytes, kCapacityBytes),
          counted_(ledger_),
          allocator_(counted_, terms.is_plain) {}

    void begin(Logs logs, const TrialTerms& terms) {
        std::unordered_map<std::int64_t, std::int64_t> live;  // bytes by request
        std::int64_t standing = terms.live_bytes;
        for_each(logs, [&](const LogEntry& entry) {
            if (entry.what == LogEntry::What::request) {
                live[entry.request] = block_bytes(entry.bytes);
            } else if (entry.what == LogEntry::What::free && live.erase(entry.request) == 0) {
                request(entry);
            }
        });
        for (const auto& [number, bytes] : live) standing -= bytes;
        request({.what = LogEntry::What::request, .request = kStanding, .bytes = standing});
        const std::int64_t missing = terms.live_peak - allocator_.figures().allocated_bytes;
        request({.what = LogEntry::What::request, .request = kIdle, .bytes = missing});
        free(kIdle);
    }

    void make(Logs logs) {
        for_each(logs, [&](const LogEntry& entry) { make(entry); });
    }

    void adopt(const Book& book, std::vector<Guest> guests) {
        std::erase_if(guests, [&](const Guest& guest) {
            return guest.offset + guest.bytes > static_cast<std::int64_t>(book.arena_bytes());
        });
        if (!guests.empty()) place(guests, book.arena_bytes());
        allocator_.adopt_book(Book(book.kinds(), book.arena_bytes()));
        served_ = unserved_ = 0;
    }

    // Makes ready for the same steps again: the blocks that they leave are requested anew.
    void begin_again(Logs logs) {
        for_each(logs, [&](const LogEntry& entry) {
            if (!guests_.contains(entry.request)) free(entry.request);
        });
        served_before_ = served_;
        unserved_before_ = unserved_;
        calls_before_ = calls();
    }

    TrialOutcome outcome() const {
        const auto [memory_calls, host_waits] = calls();
        return {allocator_.figures().reserved_peak, memory_calls - calls_before_.first,
                host_waits - calls_before_.second, served_before_, unserved_before_};
    }

  private:
    static constexpr std::int64_t kStanding = -2, kIdle = -3;

    void make(const LogEntry& entry) {
        switch (entry.what) {
            case LogEntry::What::request:
                request(entry);
                break;
            case LogEntry::What::free:
                free(entry.request);
                break;
            case LogEntry::What::step_begins:
                count(allocator_.begin_step(static_cast<std::int32_t>(entry.bytes)));
                break;
            case LogEntry::What::step_ends:
                count(allocator_.end_step());
                break;
        }
    }

    void count(const StepEnd& end) {
        served_ += end.planned;
        unserved_ += end.grown + end.unexpected + end.missing + end.in_use;
    }

    std::pair<std::int64_t, std::int64_t> calls() const {
        const DeviceCalls calls = counted_.calls();
        return {calls.memory_calls(), calls.host_waits()};
    }

    // A guest may have been requested before the adoption, and is else part of what stands.
    void place(const std::vector<Guest>& guests, std::size_t arena_bytes) {
        std::int64_t among_standing = 0;
        for (const Guest& guest : guests) {
            if (!free(guest.request)) among_standing += guest.bytes;
        }
        const std::int64_t standing = standing_bytes_ - among_standing;
        free(kStanding);
        request({.what = LogEntry::What::request, .request = kStanding, .bytes = standing});
        allocator_.adopt_book(book_of(guests, arena_bytes));
        for (const Guest& guest : guests) {
            request({LogEntry::What::request, guest.request, guest.bytes});
            guests_.insert(guest.request);
        }
    }

    void request(const LogEntry& entry) {
        if (entry.request == kStanding) standing_bytes_ = std::max(entry.bytes, std::int64_t{0});
        // A guest is there before its request comes.
        if (entry.bytes <= 0 || address_.contains(entry.request)) return;
        if (entry.bytes > kMostOfPeak * live_peak_ - allocator_.figures().allocated_bytes) {
            throw std::invalid_argument("field logs: live bytes are at most " +
                                        std::to_string(kMostOfPeak) + " times the live peak of " +
                                        std::to_string(live_peak_) + ", found a request of " +
                                        std::to_string(entry.bytes) + " bytes beyond");
        }
        address_[entry.request] = allocator_.allocate(static_cast<std::size_t>(entry.bytes),
                                                      static_cast<Stream>(entry.stream));
    }

    bool free(std::int64_t number) {
        const auto found = address_.find(number);
        if (found == address_.end()) return false;
        allocator_.free(found->second);
        address_.erase(found);
        return true;
    }

    const std::int64_t live_peak_;
    LedgerMemory ledger_;
    CountingMemory counted_;
    PlannedAllocator allocator_;
    std::unordered_map<std::int64_t, Address> address_;  // by request
    std::unordered_set<std::int64_t> guests_;            // their requests
    std::int64_t standing_bytes_ = 0;
    std::int64_t served_ = 0, served_before_ = 0;
    std::int64_t unserved_ = 0, unserved_before_ = 0;
    std::pair<std::int64_t, std::int64_t> calls_before_;
};

}  // namespace

TrialOutcome try_book(const std::vector<std::span<const LogEntry>>& logs, const TrialTerms& terms,
                      const Book* book, const std::vector<Guest>& guests) {
    const auto pages = static_cast<std::size_t>(std::max(terms.live_peak, std::int64_t{0})) /
                       std::max(terms.page_bytes, std::size_t{1});
    if (terms.live_peak < 0 || pages > kMostPages) {
        throw std::invalid_argument("field live_peak: from 0 to " + std::to_string(kMostPages) +
                                    " pages, found " + std::to_string(terms.live_peak) + " bytes");
    }
    Trial trial(terms);
    trial.begin(logs, terms);
    const Logs all(logs);
    const std::size_t adopted = std::min(logs.size() / 2, kWarmUpSteps);
    trial.make(all.first(adopted));
    if (book != nullptr) trial.adopt(*book, guests);
    trial.make(all.subspan(adopted));
    trial.begin_again(all.subspan(adopted));
    trial.make(all.subspan(adopted));
    return trial.outcome();
}

}  // namespace gapless::runtime
