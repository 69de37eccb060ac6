// The least peak over all orders of a graph's nodes, by a search over the sets of nodes that have
// run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/stop.h"
#include "reorder/order_problem.h"
#include "reorder/order_verdict.h"

namespace gapless {

// Note [Search over down-sets]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. The live bytes depend on the set of nodes that have run (a down-set), and not on their
// order. Two orders of the same set differ only in their largest step so far, and the search needs
// to continue only from the smaller one. The problem is a shortest path over down-sets, where the
// length of a path is the largest step on it.
//
// Approach. The search takes sets by rising largest step (Dijkstra 1959, with the maximum in place
// of the sum). Of sets with equal largest steps it takes those with more nodes first. When the
// search takes a set, it has already taken every set with a smaller largest step. So the first full
// set that it takes is an optimal order. A search that ends early leaves a lower bound: the largest
// step of the last set that it took.
//
// Three rules prune sets. None of them can lose the optimum:
// - A ready node runs at once, without an alternative, if its step is no larger than the largest
//   step so far and running it does not increase the live bytes. Proof: take any continuation and
//   move the node to its front. The node's own step does not exceed the largest step so far. The
//   nodes that used to come before it do not find more live bytes: readers of a tensor only run
//   out, so the node adds at most as much now as it would add later, and now it adds nothing.
//   Behind the node's old place nothing changes.
// - Some node has to run next. So the largest step of a set is at least the smallest step that may
//   come next.
// - A set is dropped if its largest step is no smaller than the peak of a known order.
//
// Parts in series need no rule of their own: where all ways meet in one set, they share one entry
// of the table. Parallel parts multiply the number of sets; the first rule keeps that number small.
//
// Limits. A set takes one bit for each node. The search ends when the table reaches
// `kMostBytesOfSets` or when it has taken as many states as the caller allows.
class DownSetSearch {
  public:
    explicit DownSetSearch(std::shared_ptr<const OrderProblem> problem);
    ~DownSetSearch();

    // Searches for an order of least peak among the orders with a peak below `limit`. Takes at most
    // `states` sets. `floor` is a lower bound on the peak of every order; the search begins there.
    // Returns kRefuted if no order is below the limit. If `stop` throws, the search ends.
    OrderVerdict run(std::int64_t floor, std::int64_t limit, std::int64_t states, Stop& stop);

    // A lower bound on the peak of every order. It holds after every call, also after a stopped
    // one.
    std::int64_t bound() const { return bound_; }
    std::int64_t taken() const { return taken_; }
    // After kFound: an order of least peak.
    const std::vector<std::int32_t>& order() const { return order_; }

  private:
    class Table;

    std::shared_ptr<const OrderProblem> problem_;
    std::int64_t bound_ = 0;
    std::int64_t taken_ = 0;
    std::vector<std::int32_t> order_;
};

}  // namespace gapless
