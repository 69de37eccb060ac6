// Local search over the orders of several streams, by the heaviest antichain.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/antichain.h"
#include "model/random.h"
#include "model/stop.h"
#include "reorder/cone_move.h"
#include "reorder/graph_columns.h"
#include "reorder/order_problem.h"

namespace gapless {

// Note [Walk through the orders of streams]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. With several streams it is the heaviest antichain that no plan stays below, and the
// largest step of one global order can be far below that: it counts on the streams to take turns as
// that order has them, and nothing makes them. So an order is worth its antichain.
//
// Approach. Two tensors of the heaviest antichain, drawn at random: the producer of one goes past
// the last user of the other, or this before it, with what has to go along (Note [Cones]). Then the
// streams are in the order in which the global order names their nodes, and the antichain is
// computed anew. An order that is worth no less than `kMemory` moves ago stays.
//
// Limits. One flow a move: from some hundred moves a second on a thousand nodes to one on twenty
// thousand.
class StreamWalk {
  public:
    static constexpr std::int64_t kUnknown = -1;

    // Starts from `order`; throws as OrderProblem::require_order and as Graph do.
    StreamWalk(std::shared_ptr<const OrderProblem> problem, GraphColumns columns,
               std::vector<std::int32_t> order, std::int64_t floor, std::uint64_t seed);

    // Tries so many moves.
    void run(std::int64_t moves, Stop& stop);

    const std::vector<std::int32_t>& best() const { return best_; }
    // Of the best order; kUnknown before the first flow is complete.
    std::int64_t best_bytes() const { return best_bytes_; }
    std::int64_t tried() const { return tried_; }

  private:
    bool draw_move();

    static constexpr std::size_t kMemory = 16;

    std::shared_ptr<const OrderProblem> problem_;
    GraphColumns columns_;
    ConeMove cone_;
    Random random_;
    std::int64_t floor_;
    std::vector<std::int32_t> order_, position_, drawn_, best_;
    Antichain heaviest_;
    std::vector<std::int64_t> memory_;
    std::int64_t best_bytes_ = kUnknown;
    std::int64_t tried_ = 0;
};

}  // namespace gapless
