#include "recompute/repeat_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gapless {

namespace {

// Longest run of units that one move changes. A guess.
constexpr std::uint64_t kLongestRun = 32;
// Factor by which the price of a byte above the limit changes at a move. A guess.
constexpr double kPriceStep = 1.01;

}  // namespace

RepeatWalk::RepeatWalk(std::shared_ptr<const Step> step, Choice start, std::int64_t limit,
                       std::uint64_t seed)
    : step_(std::move(step)), random_(seed), limit_(limit), state_(std::move(start)) {
    step_->require_choice(state_);
    double total = 0, copying = 0;
    for (std::int32_t u = 0; u < step_->unit_count(); ++u) {
        if (!step_->is_repeatable(u)) continue;
        units_.push_back(u);
        total += step_->seconds(u);
    }
    for (std::int32_t t = 0; t < step_->tensor_count(); ++t) {
        if (!step_->is_sendable(t)) continue;
        tensors_.push_back(t);
        copying += step_->copy_seconds(t);
    }
    // A move changes the seconds by about the cost of one unit, or of one copy if units take no
    // time. A price of 0 would never rise.
    first_temperature_ = total > 0     ? total / static_cast<double>(units_.size())
                         : copying > 0 ? copying / static_cast<double>(tensors_.size())
                                       : 1;
    price_ = first_temperature_;
    lowest_ = state_;
    cost_ = step_->cost(step_->late_sequence(state_), limit_);
    lowest_peak_ = cost_.peak;
    if (lowest_peak_ <= limit_) {
        has_best_ = true;
        best_ = state_;
        best_seconds_ = cost_.seconds;
    }
}

std::uint8_t& RepeatWalk::flag(Choice& choice, std::uint64_t index) const {
    return index < units_.size() ? choice.repeated[units_[index]]
                                 : choice.sent[tensors_[index - units_.size()]];
}

void RepeatWalk::change() {
    next_ = state_;
    const std::uint64_t count = units_.size() + tensors_.size();
    const std::uint64_t first = random_.below(count);
    const std::uint64_t kind = random_.below(4);
    if (kind < 2) {
        flag(next_, first) ^= 1;
    } else if (kind == 2) {
        const std::uint64_t length = 1 + random_.below(1 + random_.below(kLongestRun));
        const std::uint8_t value = flag(next_, first) ^ 1;
        for (std::uint64_t i = first; i < std::min(count, first + length); ++i) {
            flag(next_, i) = value;
        }
    } else {
        // Exchanges the flag with the first one behind a random place that differs.
        const std::uint64_t start = random_.below(count);
        for (std::uint64_t step = 0; step < count; ++step) {
            std::uint8_t& other = flag(next_, (start + step) % count);
            if (other == flag(next_, first)) continue;
            std::swap(other, flag(next_, first));
            break;
        }
    }
}

void RepeatWalk::run(std::int64_t moves, double warmth, double coolness, Stop& stop) {
    if (units_.empty() && tensors_.empty()) return;
    for (std::int64_t move = 0; move < moves; ++move) {
        stop.check();
        ++tried_;
        const double share = static_cast<double>(move) / static_cast<double>(moves);
        const double temperature = first_temperature_ * warmth * std::pow(coolness / warmth, share);
        change();
        const SequenceCost found = step_->cost(step_->late_sequence(next_), limit_);
        const double worse = found.seconds - cost_.seconds + price_ * (found.excess - cost_.excess);
        const double draw =
            static_cast<double>(1 + random_.below(std::uint64_t{1} << 32)) / 4294967296.0;
        if (worse <= 0 || std::exp(-worse / temperature) >= draw) {
            std::swap(state_, next_);
            cost_ = found;
        }
        if (cost_.peak < lowest_peak_) {
            lowest_peak_ = cost_.peak;
            lowest_ = state_;
        }
        if (cost_.peak <= limit_ && (!has_best_ || cost_.seconds < best_seconds_)) {
            has_best_ = true;
            best_ = state_;
            best_seconds_ = cost_.seconds;
        }
        price_ *= cost_.peak > limit_ ? kPriceStep : 1 / kPriceStep;
    }
}

}  // namespace gapless
