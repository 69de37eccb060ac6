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
// Rationale. With several streams, the heaviest antichain is the lower bound of every plan. The
// largest step of one global order can be far below it, because that step assumes that the streams
// interleave as in that order, and nothing enforces this. So the value of an order is its heaviest
// antichain.
//
// Approach. A move draws two tensors of the heaviest antichain at random. It moves the producer of
// one past the last user of the other, or that user before the producer, each with its cone (Note
// [Cones]). Each stream then runs its nodes in the sequence of the new global order, and the
// antichain is computed anew. The walk keeps the move if the new value is at most the current one
// or the one `kMemory` moves ago.
//
// Limits. Every move costs one flow: some hundred moves a second on a thousand nodes, one move a
// second on twenty thousand.
class StreamWalk {
  public:
    static constexpr std::int64_t kUnknown = -1;

    // Starts from `order`. Throws what OrderProblem::require_order and Graph throw.
    StreamWalk(std::shared_ptr<const OrderProblem> problem, GraphColumns columns,
               std::vector<std::int32_t> order, std::int64_t floor, std::uint64_t seed);

    // Tries `moves` moves.
    void run(std::int64_t moves, Stop& stop);

    const std::vector<std::int32_t>& best() const { return best_; }
    // The heaviest antichain of the best order, in bytes; kUnknown before the first flow is
    // complete.
    std::int64_t best_bytes() const { return best_bytes_; }
    std::int64_t tried() const { return tried_; }

  private:
    bool draw_move();

    // Length of late acceptance, in moves. A guess.
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
