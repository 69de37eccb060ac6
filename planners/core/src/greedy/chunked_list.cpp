#include "greedy/chunked_list.h"

#include <algorithm>
#include <utility>

namespace gapless {

namespace {

// Limits the tensors in one chunk. Larger chunks cost more to insert into; smaller ones more to
// walk. A guess.
constexpr std::size_t kMostPlaced = 256;

}  // namespace

void ChunkedList::insert(const Placed& placed) {
    const std::int64_t begin = placed.interval.begin;
    ++size_;
    if (chunks_.empty()) chunks_.emplace_back();
    // The last chunk that begins at or below `begin`, or the first chunk.
    auto chunk = std::upper_bound(
        chunks_.begin() + 1, chunks_.end(), begin,
        [](std::int64_t at, const Chunk& other) { return at < other.range.begin; });
    --chunk;
    if (chunk->placed.size() == kMostPlaced) {
        const auto middle = chunk->placed.begin() + kMostPlaced / 2;
        Chunk upper;
        upper.placed.assign(middle, chunk->placed.end());
        upper.range = range_of(upper.placed);
        chunk->placed.erase(middle, chunk->placed.end());
        chunk->range = range_of(chunk->placed);
        chunk = chunks_.insert(chunk + 1, std::move(upper));
        if (begin < chunk->range.begin) --chunk;
    }
    auto& there = chunk->placed;
    there.insert(std::upper_bound(there.begin(), there.end(), begin,
                                  [](std::int64_t at, const Placed& other) {
                                      return at < other.interval.begin;
                                  }),
                 placed);
    chunk->range = {there.front().interval.begin, std::max(chunk->range.end, placed.interval.end)};
}

void ChunkedList::erase(std::int64_t begin, std::int32_t number) {
    auto chunk = std::lower_bound(
        chunks_.begin(), chunks_.end(), begin,
        [](const Chunk& other, std::int64_t at) { return other.range.begin < at; });
    // Tensors with one begin may lie in several chunks.
    if (chunk != chunks_.begin()) --chunk;
    for (;; ++chunk) {
        auto& there = chunk->placed;
        const auto found = std::find_if(there.begin(), there.end(), [&](const Placed& each) {
            return each.number == number && each.interval.begin == begin;
        });
        if (found == there.end()) continue;
        there.erase(found);
        --size_;
        if (there.empty()) {
            chunks_.erase(chunk);
        } else {
            chunk->range = range_of(there);
        }
        return;
    }
}

Interval ChunkedList::range_of(const std::vector<Placed>& placed) {
    Interval range = placed.front().interval;
    for (const Placed& each : placed) range.end = std::max(range.end, each.interval.end);
    return range;
}

}  // namespace gapless
