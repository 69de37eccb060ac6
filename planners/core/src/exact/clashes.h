// Differences of the offsets of two blocks that no plan has.
#pragma once

#include <cstdint>
#include <vector>

#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// In every plan the offset of `other`, less that of the block with the clash, is at most `below` or
// at least `above`, because the two members are unsafe.
struct Clash {
    std::int32_t other;
    std::int64_t below, above;
    std::int32_t member, other_member;
};

// The clashes of each block.
using Clashes = std::vector<std::vector<Clash>>;

// If `merges`, clashes of two blocks that leave no difference between them are one.
Clashes clashes_of(const SearchProblem& problem, const Neighbours& neighbours, bool merges,
                   Stop& stop);

}  // namespace gapless
