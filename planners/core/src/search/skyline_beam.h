// Beam search over skylines: many partial plans grow in parallel, from the lowest places upwards.
#pragma once

#include <cstdint>
#include <vector>

#include "model/instance.h"
#include "model/stop.h"

namespace gapless {

struct SkylineAnswer {
    // The offsets of a plan within the limit; empty if none was found.
    std::vector<std::int64_t> offsets;
    // Number of skylines expanded.
    std::int64_t nodes = 0;
    // True if the beam dropped nothing for lack of room; a wider beam would then return the same.
    bool whole = true;
};

// Note [Skyline beam]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. The skyline of a partial plan is the height that each section has reached. Every plan
// can be pushed down and then taken apart from the top. So it can be built from a flat skyline by
// putting blocks into places: maximal runs of sections of one height between higher neighbours. A
// block inside a place lies between the neighbours of the place, whatever happens elsewhere. So
// places may be filled in any order, and the best place is the one with the fewest choices. A place
// without a choice ends a plan at once; a place with one choice needs no branching.
//
// Choices. The slack of a section is the bytes it may lose and still hold all of its tensors below
// the capacity. Seen from one side, the section at the edge of a place either is the first section
// of a block, or stays empty as far as its slack allows. A block is a choice only if the rest of
// the place can be covered too, by the blocks left and by sections that stay empty; one pass from
// the other side decides this. With little slack there are hardly ever more than three choices, and
// mostly one, because starts and ends of the blocks have to meet.
//
// Score. Among the plans with equally many blocks, the beam keeps those with the fewest steps in
// their skylines: two tops rarely meet by chance, and plans without loss consist of such meetings.
// Lost bytes count as well, as a share of the slack of their section: where little may be lost, a
// byte costs more. Ties are broken at random.
//
// Limit. If no plan can grow, the capacity rises by a small step, up to the limit, and the plans of
// that level go on. So a beam with a limit above its capacity nearly always ends with a plan, and
// plans lose bytes only where the beam found no other way. If the limit is the capacity, such a
// beam ends.
//
// Chains, gaps, pins. A chain, or a tensor with gaps, is several rectangles. The first rectangle
// placed fixes the head of its block, and so the offsets of all others; a pin fixes them from the
// start. Nothing is placed above a fixed offset before its rectangle is. When a place has reached
// the offset, that rectangle is the only choice.
//
// Limits. Failure proves nothing. Rows of unsafe pairs have no skyline and are refused. Memory and
// time grow with the width of the beam and with blocks times sections: the search suits thousands
// of blocks, not millions. More slack means more choices: far above the optimum the search is slow.
SkylineAnswer beam_over_skylines(const Instance& instance, std::int64_t capacity,
                                 std::int64_t limit, std::int32_t width, std::int64_t node_limit,
                                 std::uint64_t seed, Stop& stop);

}  // namespace gapless
