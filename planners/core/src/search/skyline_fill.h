// Local search over which block goes first into the lowest place of a skyline.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

// The reasons to place a block at the bottom of a place. Each is multiplied by a weight.
enum FillReason : std::uint8_t {
    // Walls of the place that the block touches; and those of them whose top it reaches exactly.
    kEnds,
    kFlush,
    // The most bytes still to come in one of the block's sections, as a share of the lower bound.
    kLoad,
    // The block's share of the sections of the place; and its size as a share of the lower bound.
    kWidth,
    kSize,
    // The block's own priority.
    kPriority,
    kReasons,
};
using FillWeights = std::array<double, kReasons>;

struct FillStep {
    // The offsets of a plan below the limit; empty if none was found.
    std::vector<std::int64_t> offsets;
    // The weights and priorities from which the next call continues.
    FillWeights weights;
    std::vector<double> priority;
    std::int64_t attempts = 0;
};

// Note [Skyline fill]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. A plan without holes grows along its skyline from the lowest place upwards (see Note
// [Skyline beam] for places). A beam tries many choices for each place, which suits hundreds of
// blocks with little slack. With thousands of blocks there is time for one choice: the block inside
// the place with the highest score. One plan takes a millisecond for a thousand blocks, and a
// search over weights and priorities makes many plans.
//
// Approach. If no block fits inside a place, the place stays empty up to its lower neighbour. Bytes
// are lost only so. An attempt ends when a section can no longer hold all of its blocks. The value
// of an attempt is the sum of bytes times sections that it placed. The next attempt changes the
// priorities of some blocks that are alive in the failing section, or together with one of those,
// and sometimes a weight. A change stays unless it lowers the value.
//
// Limits. A block must be one rectangle without a pin. The lowest place is found by a scan of all
// sections, and the best block by a scan of all blocks inside: the search suits hundreds of
// sections.
//
// The search stops at the first plan below the limit. The same arguments give the same step. Throws
// std::invalid_argument unless the instance has sections, its blocks are single tensors without
// gaps and pins, there is one priority for each block, and all numbers are finite.
FillStep search_fills(const Instance& instance, const FillWeights& weights,
                      std::span<const double> priority, std::int64_t limit, std::int64_t attempts,
                      std::uint64_t seed, Stop& stop);

}  // namespace gapless
