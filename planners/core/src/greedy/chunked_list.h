// Placed tensors by address, for very many of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"

namespace gapless {

// In chunks, so that one more moves few of the others, and a chunk that ends below what is
// forbidden already is skipped whole.
class ChunkedList {
  public:
    struct Placed {
        Interval interval;
        // Of the tensor in rows of unsafe pairs.
        std::int32_t number;
    };

    // Calls `visit` with what ends above the address that `floor` is by then, from low to high,
    // until it returns true. Returns whether it did.
    template <class Visit>
    bool visit_above(const std::int64_t& floor, Visit visit) const {
        for (const Chunk& chunk : chunks_) {
            if (chunk.range.end <= floor) continue;
            for (const Placed& placed : chunk.placed) {
                if (placed.interval.end > floor && visit(placed)) return true;
            }
        }
        return false;
    }

    void insert(const Placed& placed);
    std::size_t size() const { return size_; }

  private:
    struct Chunk {
        // From the lowest begin to the highest end.
        Interval range{};
        std::vector<Placed> placed;
    };

    static Interval range_of(const std::vector<Placed>& placed);

    std::vector<Chunk> chunks_;
    std::size_t size_ = 0;
};

}  // namespace gapless
