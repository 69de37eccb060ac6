// The least peak over all orders, by a search over the sets of nodes that have run.
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
// Rationale. What is alive depends on the set of nodes that have run, a down-set, and not on their
// order. So two orders of the same set differ in nothing but the largest step so far, and only the
// smaller one of these is worth going on with: a shortest path over down-sets whose length is the
// largest step on it.
//
// Approach. Sets are taken by rising largest step (Dijkstra 1959, with a maximum for a sum), and of
// equal ones those with more nodes first. When a set is taken, everything with a smaller largest
// step has been; so a full set that is taken is an optimal order, and a search that ends early
// leaves a bound: what it took last.
//
// Three rules keep sets away, none of which can lose the optimum:
// - A node that is ready, whose step is no larger than the largest so far, and after which no more
//   bytes are alive than before, runs at once and without an alternative. Take any way to go on,
//   and move the node to its front. Its own step is no larger than what is there already. Every
//   node that came before it finds no more alive: a node that runs later frees no less, for tensors
//   only lose readers as time goes on, so what it adds is at most what it adds now, which is
//   nothing. And from where it stood on nothing changes.
// - Some node has to run next, so a set counts with at least the smallest step that may come.
// - A set whose largest step is no smaller than an order that is known is left out.
//
// Parts in series need no rule of their own: where all ways meet in one set, they are one entry of
// the table. Parts side by side multiply, and the first rule is what holds them small.
//
// Limits. A set takes a bit a node; the table stops growing at `kMostBytesOfSets` and at the
// caller's limit of states.
class DownSetSearch {
  public:
    explicit DownSetSearch(std::shared_ptr<const OrderProblem> problem);
    ~DownSetSearch();

    // Looks for an order of least peak among those below `limit`, and takes at most so many sets.
    // No order is below `floor`, which is where it begins. kRefuted: none is below the limit. What
    // `stop` throws ends the search.
    OrderVerdict run(std::int64_t floor, std::int64_t limit, std::int64_t states, Stop& stop);

    // No order is below this; it holds after every call, also one that was stopped.
    std::int64_t bound() const { return bound_; }
    std::int64_t taken() const { return taken_; }
    // Where one was found: an order of least peak.
    const std::vector<std::int32_t>& order() const { return order_; }

  private:
    class Table;

    std::shared_ptr<const OrderProblem> problem_;
    std::int64_t bound_ = 0;
    std::int64_t taken_ = 0;
    std::vector<std::int32_t> order_;
};

}  // namespace gapless
