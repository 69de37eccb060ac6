// Local search over orders of all nodes, by the largest step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/random.h"
#include "model/stop.h"
#include "reorder/cone_move.h"
#include "reorder/order_problem.h"

namespace gapless {

// Note [Walk through orders]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. The largest step alone says nothing of a move that helps one of many steps as large.
// So the walk aims at a target below the best peak, and an order is worth the bytes by which its
// steps exceed that, summed. Where that is zero, the order is better than the best.
//
// Approach. It looks at a step that is too large, and moves what is alive there: a tensor's
// producer past the step, or its last reader before it, each with its cone (Note [Cones]); or just
// a node from near the step to the other side. What is alive outside the window of a move stays as
// it was, so a move costs the arcs of the nodes in its window. Late acceptance (Burke and Bykov
// 2017): a move stays if the order is worth no less than `kMemory` moves ago. The target is some
// way from the best peak towards the floor; where the walk does not reach it, the way is halved,
// and at last the walk goes back to the best order.
//
// The same problem, order, floor and seed give the same walk. A call that `stop` ends keeps the
// best order.
class OrderWalk {
  public:
    // Goes from `order`; `floor` is a bound: an order that meets it ends the walk.
    OrderWalk(std::shared_ptr<const OrderProblem> problem, std::vector<std::int32_t> order,
              std::int64_t floor, std::uint64_t seed);

    // Tries so many moves.
    void run(std::int64_t moves, Stop& stop);

    const std::vector<std::int32_t>& best() const { return best_; }
    std::int64_t best_peak() const { return best_peak_; }
    // Moves tried in all calls.
    std::int64_t tried() const { return tried_; }

  private:
    void go_to(std::span<const std::int32_t> order);
    void aim();
    // False where no step is too large.
    bool look_elsewhere();
    void try_move();
    double exceeding(std::int64_t step) const {
        return step > target_ ? static_cast<double>(step - target_) : 0.0;
    }
    bool measure(std::size_t first, std::span<const std::int32_t> window, double most);
    void take(std::size_t first, std::span<const std::int32_t> window);

    static constexpr std::size_t kMemory = 64;

    std::shared_ptr<const OrderProblem> problem_;
    ConeMove cone_;
    Random random_;
    std::int64_t floor_;
    std::vector<std::int32_t> order_, position_, best_;
    // By position: the step, and what is alive after it. By tensor: where its last reader stands.
    std::vector<std::int64_t> step_, alive_, new_step_, new_alive_;
    std::vector<std::int32_t> last_, pending_;
    std::int64_t best_peak_ = 0;
    std::int64_t target_ = 0;
    // The way from the best peak to the target is that to the floor divided by this.
    std::int64_t share_ = 0;
    std::int64_t idle_ = 0;
    std::int64_t tried_ = 0;
    double worth_ = 0, least_worth_ = 0, new_worth_ = 0;
    std::vector<double> memory_;
    // The step that is looked at, and the tensors that are alive there.
    std::size_t looked_at_ = 0;
    std::int64_t looks_left_ = 0;
    std::vector<std::int32_t> alive_there_, too_large_;
};

}  // namespace gapless
