// Local search over the orders in which first fit takes the blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

struct OrderSearchStep {
    // Of a plan that stays below the limit; empty where none was found.
    std::vector<std::int64_t> offsets;
    // Where to go on from.
    std::vector<std::int32_t> order;
    std::int64_t attempts = 0;
};

// Note [Squeaky wheel]
// ~~~~~~~~~~~~~~~~~~~~
// After Joslin and Clements 1999, with the late acceptance of Burke and Bykov 2017.
//
// First fit in the right order gives an optimal plan (take the blocks of one by their offsets), so
// the orders are a space to search. An attempt with a limit ends at the block that finds no room
// below it. No change behind that block can mend this: it has to come earlier, in front of one that
// took its room. So it is moved up by a random stretch, mostly of a few steps; some problems ask
// for longer ones, so how fast longer ones get rarer is drawn for each call. What the attempt is
// worth is how many bytes it placed; late acceptance (an attempt is kept if it is worth no less
// than the one kept `kMemory` attempts ago) lets the walk leave a dead end. What comes before the
// place it moves to stays as it was, and is not placed again.
//
// Stops at the first plan below the limit, so that whoever calls has it whatever comes later. The
// same order, limit and seed give the same step. The instance has rows of unsafe pairs. Blocks that
// the order leaves out are not placed, and have offset 0 in the plan; pins count nevertheless.
OrderSearchStep search_orders(const Instance& instance, std::span<const std::int32_t> order,
                              std::int64_t limit, std::int64_t attempts, std::uint64_t seed,
                              Stop& stop);

}  // namespace gapless
