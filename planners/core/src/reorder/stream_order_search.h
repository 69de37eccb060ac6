// The exact minimum, over all orders of several streams, of the heaviest antichain.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/stop.h"
#include "reorder/graph_columns.h"
#include "reorder/order_problem.h"
#include "reorder/order_verdict.h"

namespace gapless {

// Note [Search over orders of streams]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. With several streams, the safety of a plan depends on the order in which each stream
// runs its nodes. So two orders of the same set of nodes may differ in value, and a search over
// sets is not exact. Small graphs have few enough orders to enumerate.
//
// Approach. The search is depth-first, node by node. Two rules prune branches:
// - Two consecutive nodes on different streams without an arc between them can be swapped; every
//   stream stays the same. The search only visits the order in which the smaller number comes
//   first. The lexicographically first of all orders with the same streams obeys this rule, so it
//   is visited.
// - Whether two tensors are safe is settled once both producers have run: a path to a producer
//   passes only through nodes that ran before it. So the heaviest antichain among these tensors is
//   a lower bound for every completion. All other tensors count as zero bytes.
//
// Limits. The search computes one flow for each step, and the number of orders grows like a
// factorial. It is meant for a dozen nodes without arcs, or a few dozen with many arcs. The
// recursion is as deep as the number of nodes.
class StreamOrderSearch {
  public:
    // Limits the nodes of a graph, and so the depth of the recursion. A guess.
    static constexpr std::int32_t kMostNodes = 512;

    // Throws std::length_error for more nodes than kMostNodes.
    StreamOrderSearch(std::shared_ptr<const OrderProblem> problem, GraphColumns columns);

    // Searches for an order of least antichain among the orders below `limit`, with at most `flows`
    // flows. `floor` is a lower bound on every antichain. Returns kRefuted if no order is below the
    // limit. If `stop` throws, the search ends and keeps the best order.
    OrderVerdict run(std::int64_t floor, std::int64_t limit, std::int64_t flows, Stop& stop);

    // The best order found so far; empty if there is none.
    const std::vector<std::int32_t>& order() const { return best_; }
    std::int64_t flows() const { return flows_; }

  private:
    // Returns false if the flows are used up.
    bool extend(std::int64_t antichain, Stop& stop);
    bool could_be_swapped(std::int32_t v) const;
    std::int64_t bound_of_begun(Stop& stop);

    std::shared_ptr<const OrderProblem> problem_;
    GraphColumns columns_;
    std::vector<std::int64_t> size_;
    std::vector<std::vector<std::int32_t>> made_by_;
    std::vector<std::int32_t> order_, best_, blocked_;
    std::vector<std::uint8_t> ran_;
    std::int64_t floor_ = 0, limit_ = 0, flows_ = 0, most_flows_ = 0;
};

}  // namespace gapless
