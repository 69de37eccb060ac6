// Orders to start from, each node chosen by what it does to the bytes that are alive.
#pragma once

#include <cstdint>
#include <vector>

#include "model/stop.h"
#include "reorder/order_problem.h"

namespace gapless {

// Of the nodes that are ready, always the one after which the fewest bytes are alive; of equal
// ones the first in the given order.
std::vector<std::int32_t> order_by_growth(const OrderProblem& problem, Stop& stop);

// The same from the end: of the nodes that no other waits for, always the one before which the
// fewest bytes are alive; of equal ones the last in the given order.
std::vector<std::int32_t> order_by_growth_from_end(const OrderProblem& problem, Stop& stop);

}  // namespace gapless
