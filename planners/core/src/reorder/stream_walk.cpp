#include "reorder/stream_walk.h"

#include <algorithm>
#include <span>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

// Number of random pairs of tensors that the walk tries for one move. A guess.
constexpr int kDraws = 16;

}  // namespace

StreamWalk::StreamWalk(std::shared_ptr<const OrderProblem> problem, GraphColumns columns,
                       std::vector<std::int32_t> order, std::int64_t floor, std::uint64_t seed)
    : problem_(std::move(problem)),
      columns_(std::move(columns)),
      cone_(*problem_),
      random_(seed),
      floor_(floor),
      order_(std::move(order)),
      position_(order_.size()) {
    problem_->require_order(order_);
    columns_.require(order_.size());
    require_length("producer", columns_.producer.size(), "tensor of the problem",
                   static_cast<std::size_t>(problem_->tensor_count()));
    best_ = order_;
}

bool StreamWalk::draw_move() {
    const auto& members = heaviest_.tensors;
    if (members.empty()) return false;
    for (int draw = 0; draw < kDraws; ++draw) {
        const std::int32_t a = members[random_.below(members.size())];
        const std::int32_t b = members[random_.below(members.size())];
        // The position of the last user of `a`. The move brings it before the producer of `b`.
        std::int32_t user = position_[problem_->producer(a)];
        for (const std::int32_t reader : problem_->readers(a)) {
            user = std::max(user, position_[reader]);
        }
        const std::int32_t producer = position_[problem_->producer(b)];
        if (producer >= user) continue;
        const std::span<const std::int32_t> window(order_.data() + producer,
                                                   static_cast<std::size_t>(user - producer + 1));
        const auto moved = random_.below(2) == 0 ? cone_.postpone(window) : cone_.hasten(window);
        if (std::equal(moved.begin(), moved.end(), window.begin())) continue;
        drawn_ = order_;
        std::copy(moved.begin(), moved.end(), drawn_.begin() + producer);
        return true;
    }
    return false;
}

void StreamWalk::run(std::int64_t moves, Stop& stop) {
    if (best_bytes_ == kUnknown) {
        for (std::size_t p = 0; p < order_.size(); ++p) {
            position_[order_[p]] = static_cast<std::int32_t>(p);
        }
        heaviest_ = columns_.heaviest(order_, stop);
        best_bytes_ = heaviest_.bytes;
        memory_.assign(kMemory, best_bytes_);
    }
    for (std::int64_t move = 0; move < moves && best_bytes_ > floor_; ++move) {
        stop.check();
        std::int64_t& remembered = memory_[static_cast<std::size_t>(tried_) % kMemory];
        ++tried_;
        if (!draw_move()) continue;
        Antichain next = columns_.heaviest(drawn_, stop);
        if (next.bytes <= std::max(heaviest_.bytes, remembered)) {
            heaviest_ = std::move(next);
            std::swap(order_, drawn_);
            for (std::size_t p = 0; p < order_.size(); ++p) {
                position_[order_[p]] = static_cast<std::int32_t>(p);
            }
            if (heaviest_.bytes < best_bytes_) {
                best_bytes_ = heaviest_.bytes;
                best_ = order_;
            }
        }
        remembered = heaviest_.bytes;
    }
}

}  // namespace gapless
