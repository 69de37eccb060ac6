// Finds the requests whose bytes go to another stream next.
#pragma once

#include <vector>

#include "allocator/step_plan.h"

namespace gapless::runtime {

// Sets `handed_over` for each request whose bytes, or some of them, are next taken by another
// stream: in the same step, or in a next step of any plan.
void mark_hand_overs(std::vector<StepPlan>& plans);

}  // namespace gapless::runtime
