// Start orders for the searches: greedy choices of the next node by the live bytes that remain.
#pragma once

#include <cstdint>
#include <vector>

#include "model/stop.h"
#include "reorder/order_problem.h"

namespace gapless {

// Repeatedly takes the ready node after which the fewest bytes are alive. Ties go to the node that
// comes first in the given order.
std::vector<std::int32_t> order_by_growth(const OrderProblem& problem, Stop& stop);

// Builds the order from its end: repeatedly takes a node whose successors are all taken, and before
// which the fewest bytes are alive. Ties go to the node that comes last in the given order.
std::vector<std::int32_t> order_by_growth_from_end(const OrderProblem& problem, Stop& stop);

}  // namespace gapless
