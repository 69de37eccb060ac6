// Free space between the intervals that an address tree holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"

namespace gapless {

// Where a search is in the intervals that are occupied during some sections of one member of a
// block.
struct FreeSpaceCursor {
    const Interval* next;
    const Interval* end;
    std::int64_t before;
    std::int64_t bytes;

    // The lowest address at or above `at` with `bytes` free of these intervals alone.
    std::int64_t next_free(std::int64_t at) {
        if (next != end && next->end <= at) skip_to(at);
        while (next != end && next->begin < at + bytes) {
            at = next->end;
            ++next;
        }
        return at;
    }

    // Moves past the intervals that end at or below `at`, doubling the stride while it can.
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

// The lowest start of a block at or above `start` at which every cursor finds free space. Each
// forbids the starts (begin - before - bytes, end - before) of each of its intervals.
inline std::int64_t next_free_in_all(std::vector<FreeSpaceCursor>& cursors, std::int64_t start) {
    // Round and round, until every cursor has agreed to the same start.
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
