// Which requests leave their bytes to another stream.
#pragma once

#include <vector>

#include "allocator/kind_plan.h"

namespace gapless::runtime {

// Marks as handed over whose bytes are next taken by another stream, wholly or in part, in the same
// step or in one of any kind that may come after.
void mark_hand_overs(std::vector<KindPlan>& kinds);

}  // namespace gapless::runtime
