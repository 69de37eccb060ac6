// Requests as the stages of spatio-temporal planning see them: bytes and a lifetime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "greedy/address_tree.h"
#include "greedy/free_space.h"
#include "model/sections.h"

namespace gapless {

// Throws std::invalid_argument unless every start has an end above it.
void require_lifetimes(std::span<const std::int64_t> start, std::span<const std::int64_t> end);
// Throws std::invalid_argument unless starts rise, or stay.
void require_rising(std::span<const std::int64_t> start);

// Columns of equal length. Bytes are above 0; lifetimes are half-open steps [start, end).
struct Requests {
    // Throws std::invalid_argument unless that is so, std::overflow_error for more bytes than any
    // problem has.
    Requests(std::span<const std::int64_t> size_of_each,
             std::span<const std::int64_t> start_of_each,
             std::span<const std::int64_t> end_of_each);

    std::span<const std::int64_t> size;
    std::span<const std::int64_t> start;
    std::span<const std::int64_t> end;

    std::int32_t count() const { return static_cast<std::int32_t>(size.size()); }
};

// The sections of requests; of several tables, each goes on counting where the one before ended.
inline CutTime sections_of(std::initializer_list<Requests> tables) {
    std::vector<Segment> segments;
    for (const Requests& requests : tables) {
        for (std::int32_t r = 0; r < requests.count(); ++r) {
            const auto row = static_cast<std::int64_t>(segments.size());
            segments.push_back({row, requests.start[r], requests.end[r]});
        }
    }
    return CutTime(segments);
}

// Bytes that are occupied during sections of time.
class OccupiedBytes {
  public:
    explicit OccupiedBytes(std::int32_t sections) : tree_(sections) {}

    void occupy(SectionRange range, Interval interval) { tree_.insert(range, interval); }

    // The lowest address at or above `floor` with so many bytes free throughout a range.
    std::int64_t next_free(SectionRange range, std::int64_t bytes, std::int64_t floor) {
        cursors_.clear();
        tree_.visit(range, [&](const DisjointIntervals& occupied) {
            cursors_.push_back({occupied.begin(), occupied.end(), 0, bytes});
        });
        return next_free_in_all(cursors_, floor);
    }

  private:
    AddressTree tree_;
    std::vector<FreeSpaceCursor> cursors_;
};

}  // namespace gapless
