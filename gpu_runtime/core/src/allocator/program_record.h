// What a program does, step by step: its kinds of step, learnt from the allocator's log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "allocator/kind_record.h"
#include "allocator/log_entry.h"

namespace gapless::runtime {

// Kinds that count, and kinds that were seen less often; of each the least recently seen goes.
constexpr std::size_t kMostKinds = 16;
// A kind counts when it was seen so often.
constexpr std::int64_t kRepeated = 2;
// Of more requests no kind is made.
constexpr std::size_t kMostRecorded = std::size_t{1} << 17;

// The kinds of step, and the memory that is in use. A step of a kind that was never seen makes a
// kind. Linear in the log and in what is in use, so that it takes little time between two steps.
// Safe to call from any thread.
class ProgramRecord {
  public:
    // Throws as require_columns() does.
    explicit ProgramRecord(std::vector<KindRecord> kinds);

    // The log of a step and of what ran before it: it begins outside of a step and ends at a step's
    // end. `in_book` has the number of each kind of the book that was in force meanwhile.
    void add(std::span<const LogEntry> log, const std::vector<std::int64_t>& in_book);
    // Says that the log of a step is not read.
    void lose_track();
    // Takes steps of known kinds, whose log is not read.
    void saw(const std::vector<std::int64_t>& numbers);

    // Rises with everything that a plan has to know.
    std::int64_t version() const;
    // Whether the last step was of a kind that was seen before.
    bool knew_last_step() const;
    // The number of the last request of a log that was read, -1 before the first.
    std::int64_t newest_request() const;
    // Those with any requests that were seen so often; the order of those that count is that in
    // which they began to.
    std::vector<KindRecord> kinds(std::int64_t least_seen = 0) const;
    // Which requests in use are known to stay: of no kind that counts, or never freed.
    std::vector<std::uint8_t> stays(std::span<const std::int64_t> requests) const;
    // In use of earlier steps, in whole blocks, as far as it was seen.
    std::int64_t live_bytes() const;

  private:
    // One step, or what ran between two.
    struct Segment {
        std::int32_t label = 0;                           // kBetweenSteps for what ran between two
        std::vector<std::int64_t> request, stream, size;  // number, handle, bytes as requested
        struct Free {
            std::int64_t request, at, kind, slot;  // kind and slot as the book took the request
        };
        std::vector<Free> freed;
    };
    // A request of an earlier segment, of a slot of a kind. In order of requests.
    struct Living {
        std::int64_t request, number, slot;
    };

    void read(std::span<const LogEntry> rows, std::int64_t label);
    void add_segment(const std::vector<std::int64_t>& in_book);
    // Each returns the kind's place in `kinds_`.
    std::ptrdiff_t kind_of_segment();
    std::ptrdiff_t count(std::ptrdiff_t kind);
    void name_streams(const Roles& roles);
    bool end_earlier(std::int64_t kind, const std::vector<std::int64_t>& in_book);
    bool end_own(KindRecord& kind);
    bool take_end(std::ptrdiff_t place, std::int64_t slot, std::int64_t kind, std::int64_t end,
                  bool is_freed);
    void forget(bool counting);
    // Where a kind is in `kinds_`, -1 where it is forgotten.
    std::ptrdiff_t find(std::int64_t number) const;

    mutable std::mutex mutex_;
    std::vector<KindRecord> kinds_;
    std::int64_t next_number_ = 0, segments_ = 0, version_ = 0;
    std::int64_t newest_request_ = -1;
    bool knew_last_step_ = false;
    std::vector<Living> living_;
    // Kept so that their memory is.
    Segment segment_;
    std::vector<std::int64_t> end_;
    std::vector<std::int64_t> living_end_;
};

}  // namespace gapless::runtime
