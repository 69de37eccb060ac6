// Beam search over skylines: many plans grow side by side from their lowest places upwards.
#pragma once

#include <cstdint>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

struct SkylineAnswer {
    // Of a plan within the capacity; empty where none was found.
    std::vector<std::int64_t> offsets;
    // Skylines that were looked at.
    std::int64_t nodes = 0;
    // Whether the beam had room for everything: a wider one would do the same.
    bool whole = true;
};

// Note [Skyline beam]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. The skyline of a partial plan is the height that each section has reached. Every plan
// can be pushed down and then taken apart from the top, so it grows from a flat skyline by putting
// blocks into its places: maximal runs of sections of one height between higher neighbours. What
// lies in a place lies between its neighbours whatever happens elsewhere. So places may be filled
// in any order, and the best is the place that leaves the fewest choices: none ends a dead plan at
// once, one is no choice.
//
// Choices. A section may lose `slack` bytes and still hold all that is alive in it below the
// capacity. Going through a place from one side, the section at its edge either is the first of a
// block, or stays empty as far as its slack allows. A block is a choice only if the rest of the
// place can be covered too, by blocks that are left and by sections that may stay empty; one pass
// from the other side knows. Where memory is tight this is hardly ever more than three blocks, and
// mostly one: starts and ends of the blocks have to meet.
//
// Score. Of the plans with as many blocks the beam keeps those with the fewest steps in their
// skylines: that two tops meet is rare by chance, and what a plan without loss is made of.
// Bytes lost count as well, each as a share of the slack that its section had. Ties are drawn.
//
// Chains, gaps, pins. A chain is several rectangles, and so is a tensor with gaps. The first that
// is put gives their block its head, and with it every other its offset; a pin gives it before all.
// Nothing is put above such an offset before its rectangle is, and where a place has reached it,
// that is the only choice.
//
// Limits. Nothing is proved by failure. Rows of unsafe pairs have no skyline and are not taken.
// Memory and time grow with the width, and with blocks times sections: it is for thousands of
// blocks, not for millions. The more slack, the more choices: far above the optimum it is slow.
SkylineAnswer beam_over_skylines(const Instance& instance, std::int64_t capacity,
                                 std::int32_t width, std::int64_t node_limit, std::uint64_t seed,
                                 Stop& stop);

}  // namespace gapless
