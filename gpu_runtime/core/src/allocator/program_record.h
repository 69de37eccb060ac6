// The kinds of step of a program, learnt from the allocator's log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "allocator/kind_record.h"
#include "allocator/log_entry.h"

namespace gapless::runtime {

// At most this many kinds that count, and as many that do not. Beyond it, the least recently seen
// kind of the group is forgotten. A guess.
constexpr std::size_t kMostKinds = 16;
// A kind counts once it was seen this often.
constexpr std::int64_t kRepeated = 2;
// A segment with more requests than this is not recorded. A guess.
constexpr std::size_t kMostRecorded = std::size_t{1} << 17;

// The record of all kinds of step and of the blocks in use. A step that matches no kind makes a new
// one. Adding a log takes time linear in the log and in the number of blocks in use, so it fits
// between two steps. Thread-safe.
class ProgramRecord {
  public:
    // Throws what require_columns() throws.
    explicit ProgramRecord(std::vector<KindRecord> kinds);

    // Adds the log of a step and of the time before it. The log begins outside of a step and ends
    // at a step's end. `in_book` maps each kind of the book in force to its number.
    void add(std::span<const LogEntry> log, const std::vector<std::int64_t>& in_book);
    // Notes that the log of a step was not read.
    void lose_track();
    // Counts steps of known kinds whose log was not read.
    void saw(const std::vector<std::int64_t>& numbers);

    // A number that rises with every observation that a plan must know.
    std::int64_t version() const;
    // Number of the last request of all logs read, or -1.
    std::int64_t newest_request() const;
    // The kinds that have requests and were seen at least `least_seen` times. Kinds that count are
    // in the order in which they began to count.
    std::vector<KindRecord> kinds(std::int64_t least_seen = 0) const;
    // Returns, for each request, 1 if its block is known to stay in use: it is of no kind that
    // counts, or its slot escapes.
    std::vector<std::uint8_t> stays(std::span<const std::int64_t> requests) const;
    // Bytes in use, in whole blocks, of requests from earlier steps of kinds that count.
    std::int64_t live_bytes() const;

  private:
    // One step, or the requests between two steps.
    struct Segment {
        std::int32_t label = 0;                           // kBetweenSteps if between two steps
        std::vector<std::int64_t> request, stream, size;  // number, handle, requested bytes
        struct Free {
            std::int64_t request, at, kind, slot;  // kind and slot as the book took it
        };
        std::vector<Free> freed;
    };
    // A request of an earlier segment that is still in use, as a slot of a kind; sorted by request.
    struct Living {
        std::int64_t request, number, slot;
    };

    void read(std::span<const LogEntry> rows, std::int64_t label);
    void add_segment(const std::vector<std::int64_t>& in_book);
    // Each returns the index of the kind in `kinds_`.
    std::ptrdiff_t kind_of_segment();
    std::ptrdiff_t count(std::ptrdiff_t kind);
    void name_streams(const Roles& roles);
    bool end_earlier(std::int64_t kind, const std::vector<std::int64_t>& in_book);
    bool end_own(KindRecord& kind);
    bool take_end(std::ptrdiff_t place, std::int64_t slot, std::int64_t kind, std::int64_t end,
                  bool is_freed);
    void forget(bool counting);
    // Index of a kind in `kinds_`, or -1 if it was forgotten.
    std::ptrdiff_t find(std::int64_t number) const;

    mutable std::mutex mutex_;
    std::vector<KindRecord> kinds_;
    std::int64_t next_number_ = 0, segments_ = 0, version_ = 0;
    std::int64_t newest_request_ = -1;
    std::vector<Living> living_;
    // Buffers, kept to reuse their memory.
    Segment segment_;
    std::vector<std::int64_t> end_;
    std::vector<std::int64_t> living_end_;
};

}  // namespace gapless::runtime
