// Local search over what goes first into the lowest place of a skyline.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

// What speaks for a block at the bottom of a place, each times a weight.
enum FillReason : std::uint8_t {
    // Walls of the place that it touches, and those that it is as high as.
    kEnds,
    kFlush,
    // The most bytes that are still to come in one of its sections, as a share of the bound.
    kLoad,
    // Its share of the sections of the place, and its size as a share of the bound.
    kWidth,
    kSize,
    // Its own priority.
    kPriority,
    kReasons,
};
using FillWeights = std::array<double, kReasons>;

struct FillStep {
    // Of a plan that stays below the limit; empty where none was found.
    std::vector<std::int64_t> offsets;
    // Where to go on from.
    FillWeights weights;
    std::vector<double> priority;
    std::int64_t attempts = 0;
};

// Note [Skyline fill]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. A plan without holes grows along its skyline from the lowest place upwards (see Note
// [Skyline beam] for places). A beam looks at many choices a place, which is right for hundreds of
// blocks and little slack. With thousands there is time for one: the block inside the place for
// which most speaks. One plan takes a millisecond for a thousand blocks, and a search over weights
// and priorities makes many.
//
// Approach. Where nothing lies inside a place, it stays empty up to its lower neighbour. That is
// the only loss, so an attempt ends where a section that loses cannot hold any more what is still
// to come in it. It is worth the bytes times sections that it placed until then. The next one
// changes the priorities of some blocks that are alive in that section, or together with one of
// those, and now and then a weight; a change stays unless it makes the attempt worth less.
//
// Limits. A block is one rectangle without a pin. The lowest place is found by looking at every
// section, and what fits by looking at every block inside: it is for hundreds of sections.
//
// Stops at the first plan below the limit. The same arguments give the same step. Throws
// std::invalid_argument unless there are sections, single tensors without gaps and pins, a priority
// a block, and finite numbers.
FillStep search_fills(const Instance& instance, const FillWeights& weights,
                      std::span<const double> priority, std::int64_t limit, std::int64_t attempts,
                      std::uint64_t seed, Stop& stop);

}  // namespace gapless
