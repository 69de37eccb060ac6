// The placement engine: computes an offset for every tensor from an order of blocks and a fit.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "greedy/intervals.h"
#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

// Which free range of start offsets a block takes: the lowest, or the shortest.
enum class Fit { kFirst, kBest };

// Which start offsets of a chain count as free. The paper's Fit demands that the chain's first
// tensor fits before the next forbidden *start*, although forbidden starts are widened by the sizes
// already. This is safe but skips valid offsets. kExact takes all valid offsets. For single tensors
// the two rules agree.
enum class ChainRule { kExact, kPaper };

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

struct PlacementRules {
    Fit fit = Fit::kFirst;
    ChainRule chain_rule = ChainRule::kExact;
    // Every block has to end below this limit. A caller that looks for a better plan than its own
    // need not complete a worse one.
    std::int64_t limit = kNoLimit;
};

// The result of a placement. If `placed` equals the length of the order, `offsets` has one offset
// for each tensor. Otherwise only the blocks before order[placed] have offsets: that block would
// have ended at or above the limit, or the time was over.
struct Placement {
    std::vector<std::int64_t> offsets;
    std::int64_t placed = 0;
    bool out_of_time = false;
};

// Throws std::out_of_range if a block does not exist, and std::invalid_argument unless the order
// has every block once.
void require_order(const Instance& instance, std::span<const std::int32_t> order);

// Like require_order(), for an order of some of the blocks.
void require_partial_order(const Instance& instance, std::span<const std::int32_t> order);

// Algorithm 6, Single Object. Pinned blocks are placed before all others. `order` has every block
// once.
Placement place_single_object(const Instance& instance, std::span<const std::int32_t> order,
                              PlacementRules rules, Stop& stop);

// Algorithm 7, Many Objects. No block may be pinned.
Placement place_many_objects(const Instance& instance, std::span<const std::int32_t> order,
                             PlacementRules rules, Stop& stop);

}  // namespace gapless
