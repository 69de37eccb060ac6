// A list of placed tensors by address, for very many tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"

namespace gapless {

// The list is stored in chunks. So an insertion moves few entries, and a walk skips chunks that end
// below its floor.
class ChunkedList {
  public:
    struct Placed {
        Interval interval;
        // Number of the tensor in rows of unsafe pairs.
        std::int32_t number;
    };

    // Calls `visit`, from low to high, for each tensor that ends above `floor`, until `visit`
    // returns true. Returns true if it did. `floor` may rise during the walk.
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
    // Removes a tensor that was inserted with this begin and number.
    void erase(std::int64_t begin, std::int32_t number);
    std::size_t size() const { return size_; }

  private:
    struct Chunk {
        // From the lowest begin to the highest end in the chunk.
        Interval range{};
        std::vector<Placed> placed;
    };

    static Interval range_of(const std::vector<Placed>& placed);

    std::vector<Chunk> chunks_;
    std::size_t size_ = 0;
};

}  // namespace gapless
