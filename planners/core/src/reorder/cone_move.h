// Moves of a node, and of all nodes that must move with it, within a window of an order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reorder/order_problem.h"

namespace gapless {

// Note [Cones]
// ~~~~~~~~~~~~
// Rationale. A single node can only move between its latest predecessor and its earliest successor.
// In a chain of nodes there is no such room. The nodes that block a move can move along.
//
// Approach. To run a node after a window, take out the node and all nodes of the window that have a
// path from it, and append them behind the others. Both groups keep their order. To run a node
// before the window, do the same with the nodes that have a path to it. Every path between two
// nodes of a window stays within the window. So direct arcs suffice to find the group, and no arc
// is broken. If nothing blocks the node, only that node moves; if a chain blocks it, a segment
// moves.
class ConeMove {
  public:
    explicit ConeMove(const OrderProblem& problem)
        : problem_(problem), in_cone_(static_cast<std::size_t>(problem.node_count()), 0) {}

    // Returns the window with its first node, and all that depend on it, moved to the end.
    std::span<const std::int32_t> postpone(std::span<const std::int32_t> window);
    // Returns the window with its last node, and all that it depends on, moved to the beginning.
    std::span<const std::int32_t> hasten(std::span<const std::int32_t> window);

  private:
    const OrderProblem& problem_;
    std::vector<std::uint8_t> in_cone_;
    std::vector<std::int32_t> rest_, cone_;
};

}  // namespace gapless
