// The least heaviest antichain over all orders of several streams.
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
// Rationale. With several streams it matters in which order each ran its nodes, so sets of nodes do
// not tell orders apart that differ in worth. Small graphs have few enough orders to look at each.
//
// Approach. Depth first, node by node. Two rules keep branches away:
// - Two nodes in a row on different streams without an arc between them could be swapped, and every
//   stream would be as it was. Of such two the smaller number comes first. The first order in the
//   dictionary of those with the same streams has no such two the wrong way round; so one is left.
// - Whether two tensors whose producers have run are safe is settled: a path to a producer passes
//   through nodes that ran before it, in every way to go on. So the heaviest antichain among them
//   is a bound on all that begins like this. The rest counts as nothing, in the given order.
//
// Limits. One flow a step, and a number of orders that grows like a factorial: for a dozen nodes
// that no arc orders, or a few dozen where most are ordered. Recursion is as deep as there are
// nodes.
class StreamOrderSearch {
  public:
    static constexpr std::int32_t kMostNodes = 512;

    // Throws std::length_error for more than kMostNodes.
    StreamOrderSearch(std::shared_ptr<const OrderProblem> problem, GraphColumns columns);

    // Looks for an order of least antichain among those below `limit`, with at most so many flows;
    // no order is below `floor`. kRefuted: none is below the limit. What `stop` throws ends the
    // search, and the best order stays.
    OrderVerdict run(std::int64_t floor, std::int64_t limit, std::int64_t flows, Stop& stop);

    // The best order that was found; empty without one.
    const std::vector<std::int32_t>& order() const { return best_; }
    std::int64_t flows() const { return flows_; }

  private:
    // False where the flows are used up.
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
