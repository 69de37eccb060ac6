// The placement engine: given an order of blocks and a fit, an offset for every tensor.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "greedy/intervals.h"
#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

// Which of the free ranges of start offsets a block takes: the lowest, or the shortest.
enum class Fit { kFirst, kBest };

// Which start offsets of a chain count as free. The published Fit asks that its first tensor fits
// before the next forbidden *start*, although these starts are widened by the sizes already: safe,
// but it passes over valid offsets. Exact takes them all; the two agree on single tensors.
enum class ChainRule { kExact, kPaper };

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

struct PlacementRules {
    Fit fit = Fit::kFirst;
    ChainRule chain_rule = ChainRule::kExact;
    // Every block has to end below this: who looks for a better plan than the one it has need not
    // see a worse one to its end.
    std::int64_t limit = kNoLimit;
};

// How far an algorithm came. Where `placed` is the length of the order, `offsets` holds one offset
// a tensor. Otherwise the offsets of the blocks before order[placed] do, and that block would have
// ended at or above the limit, or the time was over.
struct Placement {
    std::vector<std::int64_t> offsets;
    std::int64_t placed = 0;
    bool out_of_time = false;
};

// Throws std::out_of_range for a block that does not exist, std::invalid_argument unless the order
// holds every block once.
void require_order(const Instance& instance, std::span<const std::int32_t> order);

// The same for an order of some of the blocks.
void require_partial_order(const Instance& instance, std::span<const std::int32_t> order);

// Algorithm 6, Single Object. Pinned blocks are placed before all others. `order` holds every block
// once.
Placement place_single_object(const Instance& instance, std::span<const std::int32_t> order,
                              PlacementRules rules, Stop& stop);

// Algorithm 7, Many Objects. No block may be pinned.
Placement place_many_objects(const Instance& instance, std::span<const std::int32_t> order,
                             PlacementRules rules, Stop& stop);

// Algorithms 8 and 9, Avoid and Merge: the start offsets at or above `floor` that the tensors
// placed so far (offset >= 0) forbid to a block, as sorted intervals that do not touch.
std::vector<Interval> forbidden_starts(const Instance& instance,
                                       std::span<const std::int64_t> offsets, std::int32_t block,
                                       std::int64_t floor);

}  // namespace gapless
