// Searches for free space between the intervals of an address tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"

namespace gapless {

// The position of a search in the intervals that are occupied during some sections of one member of
// a block.
struct FreeSpaceCursor {
    const Interval* next;
    const Interval* end;
    std::int64_t before;
    std::int64_t bytes;

    // Returns the lowest address >= `at` with `bytes` bytes free of these intervals.
    std::int64_t next_free(std::int64_t at) {
        if (next != end && next->end <= at) skip_to(at);
        while (next != end && next->begin < at + bytes) {
            at = next->end;
            ++next;
        }
        return at;
    }

    // Moves past the intervals that end at or below `at`, by a galloping search.
    void skip_to(std::int64_t at) {
        std::ptrdiff_t stride = 1;
        while (end - next >= stride && next[stride - 1].end <= at) {
            next += stride;
            stride *= 2;
        }
        next = std::partition_point(next, std::min(end, next + stride),
                                    [&](const Interval& interval) { return interval.end <= at; });
    }
};

// Returns the lowest start of a block, at or above `start`, at which every cursor finds free space.
// Each interval of a cursor forbids the starts (begin - before - bytes, end - before).
inline std::int64_t next_free_in_all(std::vector<FreeSpaceCursor>& cursors, std::int64_t start) {
    // Cycle through the cursors until all agree on one start.
    for (std::size_t i = 0, agreed = 0; agreed < cursors.size(); ++agreed) {
        FreeSpaceCursor& cursor = cursors[i];
        const std::int64_t free = cursor.next_free(start + cursor.before) - cursor.before;
        if (free != start) {
            start = free;
            agreed = 0;
        }
        if (++i == cursors.size()) i = 0;
    }
    return start;
}

}  // namespace gapless
