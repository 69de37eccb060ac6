#include "allocator/program_record.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "allocator/kind_plan.h"
#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// End of a request that was not freed.
constexpr std::int64_t kNotFreed = -1;

bool counts(const KindRecord& kind) { return kind.seen >= kRepeated; }

bool is_mark(const LogEntry& entry) { return entry.what >= LogEntry::What::step_begins; }

}  // namespace

ProgramRecord::ProgramRecord(std::vector<KindRecord> kinds) : kinds_(std::move(kinds)) {
    for (const KindRecord& kind : kinds_) {
        require_columns(kind);
        next_number_ = std::max(next_number_, kind.number + 1);
        segments_ = std::max(segments_, kind.last_seen);
    }
    version_ = !kinds_.empty();
}

void ProgramRecord::add(std::span<const LogEntry> log, const std::vector<std::int64_t>& in_book) {
    const std::lock_guard lock(mutex_);
    auto begin = log.begin();
    std::int64_t label = kBetweenSteps;
    for (auto mark = std::ranges::find_if(log, is_mark); mark != log.end();
         mark = std::find_if(begin, log.end(), is_mark)) {
        const bool begins = mark->what == LogEntry::What::step_begins;
        // The allocator drops a log that becomes too long, so this log lacks its beginning.
        if (begin == log.begin() && !begins) return;
        read({begin, mark}, label);
        if (segment_.request.size() > kMostRecorded) {
            living_.clear();
        } else {
            add_segment(in_book);
        }
        label = begins ? mark->bytes : kBetweenSteps;
        begin = std::next(mark);
    }
}

void ProgramRecord::lose_track() {
    const std::lock_guard lock(mutex_);
    living_.clear();
}

void ProgramRecord::saw(const std::vector<std::int64_t>& numbers) {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t number : numbers) {
        ++segments_;
        const std::ptrdiff_t kind = find(number);
        if (kind >= 0) count(kind);
    }
}

std::int64_t ProgramRecord::version() const {
    const std::lock_guard lock(mutex_);
    return version_;
}

std::int64_t ProgramRecord::newest_request() const {
    const std::lock_guard lock(mutex_);
    return newest_request_;
}

std::vector<KindRecord> ProgramRecord::kinds(std::int64_t least_seen) const {
    const std::lock_guard lock(mutex_);
    std::vector<KindRecord> found;
    std::ranges::copy_if(kinds_, std::back_inserter(found), [&](const KindRecord& kind) {
        return kind.slot_count() > 0 && kind.seen >= least_seen;
    });
    return found;
}

std::vector<std::uint8_t> ProgramRecord::stays(std::span<const std::int64_t> requests) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint8_t> stays;
    stays.reserve(requests.size());
    for (const std::int64_t request : requests) {
        const auto known = std::ranges::lower_bound(living_, request, {}, &Living::request);
        bool is_staying = known != living_.end() && known->request == request;
        if (is_staying) {
            const std::ptrdiff_t kind = find(known->number);
            is_staying = kind < 0 || !counts(kinds_[kind]) || kinds_[kind].escapes(known->slot);
        }
        stays.push_back(is_staying);
    }
    return stays;
}

std::int64_t ProgramRecord::live_bytes() const {
    const std::lock_guard lock(mutex_);
    std::int64_t total = 0;
    for (const Living& living : living_) {
        const std::ptrdiff_t kind = find(living.number);
        if (kind < 0 || !counts(kinds_[kind])) continue;
        const auto bytes = static_cast<std::size_t>(kinds_[kind].last[living.slot]);
        total += static_cast<std::int64_t>(round_up(bytes, kBlockAlignment));
    }
    return total;
}

void ProgramRecord::read(std::span<const LogEntry> rows, std::int64_t label) {
    segment_.label = static_cast<std::int32_t>(label);
    segment_.request.clear();
    segment_.stream.clear();
    segment_.size.clear();
    segment_.freed.clear();
    for (const LogEntry& row : rows) {
        if (row.what == LogEntry::What::request) {
            segment_.request.push_back(row.request);
            segment_.stream.push_back(row.stream);
            segment_.size.push_back(row.bytes);
        } else {
            const auto now = static_cast<std::int64_t>(segment_.request.size());
            segment_.freed.push_back({row.request, now, row.kind, row.slot});
        }
    }
    if (!segment_.request.empty()) newest_request_ = segment_.request.back();
}

void ProgramRecord::add_segment(const std::vector<std::int64_t>& in_book) {
    ++segments_;
    std::ptrdiff_t place = kind_of_segment();
    const std::int64_t seen = kinds_[place].seen;
    place = count(place);
    KindRecord& kind = kinds_[place];
    bool is_news = seen + 1 == kRepeated;
    is_news |= kind.widen(segment_.size);
    is_news |= end_earlier(kind.number, in_book);
    is_news |= end_own(kind);
    if (is_news && !segment_.request.empty()) ++version_;
    forget(false);
    forget(true);
}

// A kind that begins to count moves to the end of the list.
std::ptrdiff_t ProgramRecord::count(std::ptrdiff_t kind) {
    kinds_[kind].last_seen = segments_;
    if (++kinds_[kind].seen != kRepeated) return kind;
    const auto place = kinds_.begin() + kind;
    return std::rotate(place, place + 1, kinds_.end()) - kinds_.begin();
}

std::ptrdiff_t ProgramRecord::kind_of_segment() {
    std::ptrdiff_t found = -1;
    std::size_t least_unlike = 0;
    Roles who;
    for (std::size_t place = 0; place < kinds_.size(); ++place) {
        const KindRecord& kind = kinds_[place];
        if (kind.label != segment_.label) continue;
        std::optional<Roles> roles = kind.roles_of(segment_.stream);
        if (!roles || !kind.is_alike(segment_.size)) continue;
        const std::size_t unlike = kind.unlikeness(segment_.size);
        if (found >= 0 && unlike >= least_unlike) continue;
        found = static_cast<std::ptrdiff_t>(place);
        least_unlike = unlike;
        who = std::move(*roles);
    }
    if (found >= 0) {
        if (!who.empty()) name_streams(who);
        return found;
    }
    const std::size_t slots = segment_.request.size();
    kinds_.push_back({.number = next_number_++,
                      .label = segment_.label,
                      .stream = segment_.stream,
                      .least = segment_.size,
                      .most = segment_.size,
                      .last = segment_.size,
                      .end = std::vector<std::int64_t>(slots),
                      .short_end = std::vector<std::int64_t>(slots),
                      .was_freed = std::vector<std::uint8_t>(slots),
                      .renewed = std::vector<std::uint8_t>(slots),
                      .later = {}});
    return static_cast<std::ptrdiff_t>(kinds_.size()) - 1;
}

void ProgramRecord::name_streams(const Roles& roles) {
    for (KindRecord& kind : kinds_) {
        for (std::int64_t& stream : kind.stream) {
            const auto role = std::ranges::find(roles, stream, &Roles::value_type::first);
            if (role != roles.end()) stream = role->second;
        }
    }
}

// Takes the ends of the blocks that were in use when the segment began.
bool ProgramRecord::end_earlier(std::int64_t kind, const std::vector<std::int64_t>& in_book) {
    const auto last = static_cast<std::int64_t>(segment_.request.size());
    living_end_.assign(living_.size(), kNotFreed);
    bool is_news = false;
    for (const auto& [request, at, in_kind, slot] : segment_.freed) {
        if (last > 0 && request >= segment_.request.front()) continue;
        const auto known = std::ranges::lower_bound(living_, request, {}, &Living::request);
        if (known != living_.end() && known->request == request) {
            living_end_[known - living_.begin()] = at;
        } else if (in_kind >= 0 && in_kind < static_cast<std::int64_t>(in_book.size())) {
            // The log of this request was not read; its kind and slot come from the book.
            is_news |= take_end(find(in_book[in_kind]), slot, kind, at, true);
        }
    }
    std::size_t kept = 0;
    std::ptrdiff_t owner = -1;
    for (std::size_t index = 0; index < living_.size(); ++index) {
        const Living living = living_[index];
        const bool is_freed = living_end_[index] != kNotFreed;
        const std::int64_t end = is_freed ? living_end_[index] : last;
        // Entries of one segment are adjacent, so the owner is looked up once for each run.
        if (owner < 0 || kinds_[owner].number != living.number) owner = find(living.number);
        is_news |= take_end(owner, living.slot, kind, end, is_freed);
        if (!is_freed) living_[kept++] = living;
    }
    living_.resize(kept);
    return is_news;
}

bool ProgramRecord::take_end(std::ptrdiff_t place, std::int64_t slot, std::int64_t kind,
                             std::int64_t end, bool is_freed) {
    if (place < 0) return false;
    KindRecord& owner = kinds_[place];
    if (slot < 0 || slot >= static_cast<std::int64_t>(owner.slot_count())) return false;
    bool is_news = owner.take_end_in(kind, slot, end);
    if (is_freed) is_news |= owner.take_freed(slot);
    return is_news && counts(owner);
}

// Takes the ends of the segment's own requests. Those that were not freed are in use from now on.
bool ProgramRecord::end_own(KindRecord& kind) {
    const auto count = static_cast<std::int64_t>(segment_.request.size());
    end_.assign(segment_.request.size(), kNotFreed);
    const std::int64_t first = count > 0 ? segment_.request.front() : 0;
    for (const auto& freed : segment_.freed) {
        // Requests are numbered consecutively.
        const std::int64_t slot = freed.request - first;
        if (slot >= 0 && slot < count) end_[slot] = freed.at;
    }
    bool is_news = false;
    for (std::int64_t slot = 0; slot < count; ++slot) {
        if (end_[slot] == kNotFreed) {
            is_news |= kind.raise_end(slot, count);
            continue;
        }
        is_news |= kind.raise_end(slot, end_[slot]);
        is_news |= kind.take_freed(slot);
        // A slot whose block may outlive the step gets a spare place for its short life.
        is_news |= kind.raise_short_end(slot, end_[slot]);
    }
    for (std::int64_t slot = 0; slot < count; ++slot) {
        if (end_[slot] != kNotFreed || kind.is_always_renewed(slot)) continue;
        living_.push_back({segment_.request[slot], kind.number, slot});
    }
    return is_news && counts(kind);
}

void ProgramRecord::forget(bool counting) {
    const auto is_one = [&](const KindRecord& kind) {
        return kind.slot_count() > 0 && counts(kind) == counting;
    };
    if (std::ranges::count_if(kinds_, is_one) <= static_cast<std::ptrdiff_t>(kMostKinds)) return;
    auto oldest = std::ranges::find_if(kinds_, is_one);
    for (auto kind = oldest; kind != kinds_.end(); ++kind) {
        if (is_one(*kind) && kind->last_seen < oldest->last_seen) oldest = kind;
    }
    const std::int64_t number = oldest->number;
    kinds_.erase(oldest);
    for (KindRecord& kind : kinds_) kind.later.erase(number);
}

std::ptrdiff_t ProgramRecord::find(std::int64_t number) const {
    const auto found = std::ranges::find(kinds_, number, &KindRecord::number);
    return found == kinds_.end() ? -1 : found - kinds_.begin();
}

}  // namespace gapless::runtime
