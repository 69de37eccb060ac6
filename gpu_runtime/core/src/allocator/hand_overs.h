// Finds the requests whose bytes go to another stream next.
#pragma once

#include <vector>

#include "allocator/kind_plan.h"

namespace gapless::runtime {

// Sets `handed_over` for each slot whose bytes, or some of them, are next taken by another stream:
// in the same step, or in a next step of any kind.
void mark_hand_overs(std::vector<KindPlan>& kinds);

}  // namespace gapless::runtime
