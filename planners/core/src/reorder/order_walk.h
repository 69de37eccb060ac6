// Local search over orders of all nodes. It minimises the largest step.
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
// Rationale. The largest step does not show the effect of a move that lowers one of several equally
// large steps. So the walk sets a target below the best peak and minimises the excess: the sum,
// over all steps, of the bytes above the target. An order of excess zero is better than the best.
//
// Approach. The walk picks a step above the target and moves tensors that are alive there: it moves
// a tensor's producer past the step, or its last reader before the step, each with its cone (Note
// [Cones]). Or it moves a node from near the step to the other side. The live bytes outside the
// window of a move stay the same, so a move costs the arcs of the nodes in its window. The walk
// uses late acceptance (Burke and Bykov 2017): it keeps a move if the new excess is at most the
// current one or the one `kMemory` moves ago. The target lies some share of the way from the best
// peak to the floor. If the walk does not reach the target, it halves that share. When the share
// can shrink no further, the walk returns to the best order.
//
// The same problem, order, floor and seed give the same walk. If `stop` ends a call, the best order
// is kept.
class OrderWalk {
  public:
    // The walk starts from `order`. `floor` is a lower bound: an order that meets it ends the walk.
    OrderWalk(std::shared_ptr<const OrderProblem> problem, std::vector<std::int32_t> order,
              std::int64_t floor, std::uint64_t seed);

    // Tries `moves` moves.
    void run(std::int64_t moves, Stop& stop);

    const std::vector<std::int32_t>& best() const { return best_; }
    std::int64_t best_peak() const { return best_peak_; }
    // Number of moves tried in all calls.
    std::int64_t tried() const { return tried_; }

  private:
    void go_to(std::span<const std::int32_t> order);
    void aim();
    // Picks a step above the target. Returns false if there is none.
    bool look_elsewhere();
    void try_move();
    double exceeding(std::int64_t step) const {
        return step > target_ ? static_cast<double>(step - target_) : 0.0;
    }
    bool measure(std::size_t first, std::span<const std::int32_t> window, double most);
    void take(std::size_t first, std::span<const std::int32_t> window);

    // Length of late acceptance, in moves. A guess.
    static constexpr std::size_t kMemory = 64;

    std::shared_ptr<const OrderProblem> problem_;
    ConeMove cone_;
    Random random_;
    std::int64_t floor_;
    std::vector<std::int32_t> order_, position_, best_;
    // By position: the step, and the bytes alive after it. By tensor: the position of its last
    // reader.
    std::vector<std::int64_t> step_, alive_, new_step_, new_alive_;
    std::vector<std::int32_t> last_, pending_;
    std::int64_t best_peak_ = 0;
    std::int64_t target_ = 0;
    // The target lies 1 / share_ of the way from the best peak to the floor.
    std::int64_t share_ = 0;
    std::int64_t idle_ = 0;
    std::int64_t tried_ = 0;
    double worth_ = 0, least_worth_ = 0, new_worth_ = 0;
    std::vector<double> memory_;
    // The position whose step the walk tries to lower, and the tensors that are alive there.
    std::size_t looked_at_ = 0;
    std::int64_t looks_left_ = 0;
    std::vector<std::int32_t> alive_there_, too_large_;
};

}  // namespace gapless
