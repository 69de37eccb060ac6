// Requests of spatio-temporal planning: each has a number of bytes and a lifetime.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "greedy/address_tree.h"
#include "greedy/free_space.h"
#include "model/sections.h"

namespace gapless {

// Throws std::invalid_argument unless every request ends after its start.
void require_lifetimes(std::span<const std::int64_t> start, std::span<const std::int64_t> end);
// Throws std::invalid_argument unless starts never fall.
void require_rising(std::span<const std::int64_t> start);

// Columns of equal length. Sizes are positive bytes; lifetimes are half-open steps [start, end).
struct Requests {
    // Throws std::invalid_argument if a column breaks these rules, and std::overflow_error for more
    // bytes than any problem may have.
    Requests(std::span<const std::int64_t> size_of_each,
             std::span<const std::int64_t> start_of_each,
             std::span<const std::int64_t> end_of_each);

    std::span<const std::int64_t> size;
    std::span<const std::int64_t> start;
    std::span<const std::int64_t> end;

    std::int32_t count() const { return static_cast<std::int32_t>(size.size()); }
};

// Returns the sections of several tables of requests. The rows of all tables are numbered in
// sequence.
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

    // Returns the lowest address >= `floor` with `bytes` bytes free in every section of `range`.
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
