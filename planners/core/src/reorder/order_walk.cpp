#include "reorder/order_walk.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace gapless {

namespace {

// The first target lies this part of the way from the best peak to the floor: 1/16. A guess.
constexpr std::int64_t kFirstShare = 16;
// Moves without progress, for each node, before the walk chooses a target nearer to the best peak;
// and the least number of such moves. Both are guesses.
constexpr std::int64_t kPatience = 4;
constexpr std::int64_t kLeastPatience = 2000;
// Number of moves around one step before the walk looks at another step. A guess.
constexpr std::int64_t kLooks = 16;

// Returns a random distance up to `most`. Short distances are more likely: the number of bits is
// drawn uniformly first.
std::size_t some_way(Random& random, std::size_t most) {
    if (most == 0) return 0;
    const std::uint64_t width = 1 + random.below(static_cast<std::uint64_t>(std::bit_width(most)));
    return std::min<std::size_t>(most, random.below(std::uint64_t{1} << width));
}

}  // namespace

OrderWalk::OrderWalk(std::shared_ptr<const OrderProblem> problem, std::vector<std::int32_t> order,
                     std::int64_t floor, std::uint64_t seed)
    : problem_(std::move(problem)),
      cone_(*problem_),
      random_(seed),
      floor_(std::max<std::int64_t>(floor, 0)) {
    problem_->require_order(order);
    const auto nodes = static_cast<std::size_t>(problem_->node_count());
    order_.resize(nodes);
    position_.resize(nodes);
    step_.resize(nodes);
    alive_.resize(nodes);
    new_step_.resize(nodes);
    new_alive_.resize(nodes);
    last_.resize(problem_->tensor_count());
    pending_.resize(problem_->tensor_count());
    best_peak_ = problem_->peak(order);
    best_ = std::move(order);
    share_ = kFirstShare;
    go_to(best_);
}

void OrderWalk::go_to(std::span<const std::int32_t> order) {
    std::fill(last_.begin(), last_.end(), -1);
    // Measures the whole order as one window.
    const std::vector<std::int32_t> whole(order.begin(), order.end());
    target_ = best_peak_;
    measure(0, whole, std::numeric_limits<double>::infinity());
    take(0, whole);
    aim();
}

void OrderWalk::aim() {
    // A walk that missed its target may still have found an order better than the best.
    const std::int64_t peak = step_.empty() ? 0 : *std::max_element(step_.begin(), step_.end());
    if (peak < best_peak_) {
        best_peak_ = peak;
        best_ = order_;
    }
    target_ = best_peak_ - std::max<std::int64_t>(1, (best_peak_ - floor_) / share_);
    worth_ = 0;
    for (const std::int64_t step : step_) worth_ += exceeding(step);
    least_worth_ = worth_;
    memory_.assign(kMemory, worth_);
    looks_left_ = 0;
    idle_ = 0;
}

bool OrderWalk::look_elsewhere() {
    too_large_.clear();
    for (std::size_t p = 0; p < step_.size(); ++p) {
        if (step_[p] > target_) too_large_.push_back(static_cast<std::int32_t>(p));
    }
    if (too_large_.empty()) return false;
    looked_at_ =
        random_.below(2) == 0
            ? static_cast<std::size_t>(std::max_element(step_.begin(), step_.end()) - step_.begin())
            : static_cast<std::size_t>(too_large_[random_.below(too_large_.size())]);
    alive_there_.clear();
    for (std::int32_t t = 0; t < problem_->tensor_count(); ++t) {
        if (problem_->readers(t).empty() || problem_->size(t) == 0) continue;
        const auto born = static_cast<std::size_t>(position_[problem_->producer(t)]);
        if (born <= looked_at_ && static_cast<std::size_t>(last_[t]) >= looked_at_) {
            alive_there_.push_back(t);
        }
    }
    looks_left_ = kLooks;
    return true;
}

bool OrderWalk::measure(std::size_t first, std::span<const std::int32_t> window, double most) {
    const auto end = static_cast<std::int32_t>(first + window.size());
    for (const std::int32_t v : window) {
        for (const std::int32_t t : problem_->reads(v)) {
            if (last_[t] < end) ++pending_[t];
        }
    }
    std::int64_t alive = first == 0 ? 0 : alive_[first - 1];
    new_worth_ = 0;
    for (std::size_t w = 0; w < window.size(); ++w) {
        const std::int32_t v = window[w];
        new_step_[w] = alive + problem_->made(v);
        new_worth_ += exceeding(new_step_[w]);
        alive += problem_->kept(v);
        for (const std::int32_t t : problem_->reads(v)) {
            if (last_[t] < end && --pending_[t] == 0) alive -= problem_->size(t);
        }
        new_alive_[w] = alive;
    }
    return new_worth_ <= most;
}

void OrderWalk::take(std::size_t first, std::span<const std::int32_t> window) {
    const auto end = static_cast<std::int32_t>(first + window.size());
    for (std::size_t w = 0; w < window.size(); ++w) {
        const std::int32_t v = window[w];
        const auto at = static_cast<std::int32_t>(first + w);
        order_[first + w] = v;
        position_[v] = at;
        step_[first + w] = new_step_[w];
        alive_[first + w] = new_alive_[w];
        for (const std::int32_t t : problem_->reads(v)) {
            if (last_[t] < end) last_[t] = at;
        }
    }
}

void OrderWalk::try_move() {
    if (looks_left_-- <= 0 && !look_elsewhere()) {
        worth_ = 0;  // the rest is rounding: sums above 2^53 bytes are not exact
        return;
    }
    const std::size_t at = looked_at_;
    const std::size_t last = order_.size() - 1;
    // The window reaches from the node that moves to its new place, or from there to the node.
    std::size_t from = at;
    bool is_postponed = random_.below(2) == 0;
    const bool of_tensor = !alive_there_.empty() && random_.below(2) == 0;
    if (of_tensor) {
        const std::int32_t t = alive_there_[random_.below(alive_there_.size())];
        from = static_cast<std::size_t>(is_postponed ? position_[problem_->producer(t)] : last_[t]);
    } else {
        from = is_postponed ? at - some_way(random_, at) : at + some_way(random_, last - at);
    }
    const std::size_t to =
        is_postponed ? at + some_way(random_, last - at) : at - some_way(random_, at);
    if (from == to) return;
    const std::size_t first = std::min(from, to);
    const std::span<const std::int32_t> window(order_.data() + first,
                                               std::max(from, to) - first + 1);
    const auto moved = is_postponed ? cone_.postpone(window) : cone_.hasten(window);

    double before = 0;
    for (std::size_t p = first; p < first + window.size(); ++p) before += exceeding(step_[p]);
    double& remembered = memory_[static_cast<std::size_t>(tried_) % kMemory];
    const double most = std::max(worth_, remembered);
    if (measure(first, moved, most - (worth_ - before))) {
        take(first, moved);
        worth_ += new_worth_ - before;
        const std::int64_t now = step_[looked_at_];
        if (now <= target_) looks_left_ = 0;
    }
    remembered = worth_;
}

void OrderWalk::run(std::int64_t moves, Stop& stop) {
    if (order_.empty()) return;
    const std::int64_t patience =
        std::max(kLeastPatience, kPatience * static_cast<std::int64_t>(order_.size()));
    for (std::int64_t move = 0; move < moves && best_peak_ > floor_; ++move) {
        stop.poll();
        ++tried_;
        try_move();
        ++idle_;
        if (worth_ < least_worth_) {
            least_worth_ = worth_;
            idle_ = 0;
        }
        if (worth_ <= 0) {
            aim();
        } else if (idle_ > patience) {
            if ((best_peak_ - floor_) / share_ > 1) {
                share_ *= 2;
                aim();
            } else {
                share_ = kFirstShare;
                go_to(best_);
            }
        }
    }
}

}  // namespace gapless
