// Free addresses between what an address tree holds as taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"

namespace gapless {

// What is taken during some sections of one member of a block.
struct TakenList {
    const Span* next;
    const Span* end;
    std::int64_t before;
    std::int64_t bytes;

    // The lowest address at or above `at` with `bytes` free in this list alone.
    std::int64_t next_free(std::int64_t at) {
        if (next != end && next->end <= at) skip_to(at);
        while (next != end && next->begin < at + bytes) {
            at = next->end;
            ++next;
        }
        return at;
    }

    // Moves past the spans that end at or below `at`, doubling the stride while it can.
    void skip_to(std::int64_t at) {
        std::ptrdiff_t stride = 1;
        while (end - next >= stride && next[stride - 1].end <= at) {
            next += stride;
            stride *= 2;
        }
        next = std::partition_point(next, std::min(end, next + stride),
                                    [&](const Span& span) { return span.end <= at; });
    }
};

// The lowest start of a block at or above `start` that is free in every list. Each list forbids
// the starts (begin - before - bytes, end - before) of each of its spans.
inline std::int64_t next_free_in_all(std::vector<TakenList>& lists, std::int64_t start) {
    // Round and round, until every list has agreed to the same start.
    for (std::size_t i = 0, agreed = 0; agreed < lists.size(); ++agreed) {
        TakenList& list = lists[i];
        const std::int64_t free = list.next_free(start + list.before) - list.before;
        if (free != start) {
            start = free;
            agreed = 0;
        }
        if (++i == lists.size()) i = 0;
    }
    return start;
}

}  // namespace gapless
