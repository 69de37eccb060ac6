// Local search over the block orders of first fit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

struct OrderSearchStep {
    // The offsets of a plan below the limit; empty if none was found.
    std::vector<std::int64_t> offsets;
    // The order from which the next call continues.
    std::vector<std::int32_t> order;
    std::int64_t attempts = 0;
    // True if the first block of an order ended too high with nothing but the pins placed: no plan
    // is below the limit.
    bool none = false;
};

// Note [Squeaky wheel]
// ~~~~~~~~~~~~~~~~~~~~
// After Joslin and Clements 1999, with the late acceptance of Burke and Bykov 2017.
//
// First fit in the right order gives an optimal plan (sort the blocks of an optimal plan by
// offset). So the search space is the set of orders. An attempt with a limit fails at the first
// block that finds no room below the limit. A change behind that block cannot help: the block must
// move forward, in front of a block that took its room. So it moves forward by a random distance,
// mostly a few positions. Some problems need longer moves, so the rate at which long moves become
// rare is drawn anew in each call. The value of an attempt is the number of bytes that it placed.
// Late acceptance lets the search leave a dead end: an attempt is kept if its value is at least
// that of the attempt kept `kMemory` attempts ago. Blocks before the new position of the moved
// block are not placed again.
//
// The search stops at the first plan below the limit. The same order, limit and seed give the same
// step. The instance needs rows of unsafe pairs. Blocks that the order leaves out are not placed
// and have offset 0 in the plan; pinned blocks occupy their places in any case.
OrderSearchStep search_orders(const Instance& instance, std::span<const std::int32_t> order,
                              std::int64_t limit, std::int64_t attempts, std::uint64_t seed,
                              Stop& stop);

}  // namespace gapless
