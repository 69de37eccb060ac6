// Moves of a node with all that has to go with it, within a window of an order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reorder/order_problem.h"

namespace gapless {

// Note [Cones]
// ~~~~~~~~~~~~
// Rationale. A node alone moves between its latest predecessor and its earliest successor, which in
// a chain of nodes is nowhere. What stands in its way can move with it.
//
// Approach. To run a node after a window, take it out together with all nodes of the window that
// have a path from it, and put them behind the others; both keep their order. To run it before the
// window, the same with nodes that have a path to it. A path between two nodes of a window stays
// within it, so direct arcs are enough to find them, and no arc can be broken. Where nothing stands
// in the way this is the move of one node; where a chain does, of a segment.
class ConeMove {
  public:
    explicit ConeMove(const OrderProblem& problem)
        : problem_(problem), in_cone_(static_cast<std::size_t>(problem.node_count()), 0) {}

    // The window with its first node, and all that has to come after that, at the end.
    std::span<const std::int32_t> postpone(std::span<const std::int32_t> window);
    // The window with its last node, and all that has to come before that, at the beginning.
    std::span<const std::int32_t> hasten(std::span<const std::int32_t> window);

  private:
    const OrderProblem& problem_;
    std::vector<std::uint8_t> in_cone_;
    std::vector<std::int32_t> rest_, cone_;
};

}  // namespace gapless
