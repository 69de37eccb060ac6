#include "budget/repeat_walk.h"

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

RepeatWalk::RepeatWalk(std::shared_ptr<const Step> step, std::vector<std::uint8_t> repeated,
                       std::int64_t limit, std::uint64_t seed)
    : step_(std::move(step)), random_(seed), limit_(limit), state_(std::move(repeated)) {
    step_->require_flags(state_);
    double total = 0;
    for (std::int32_t u = 0; u < step_->unit_count(); ++u) {
        if (!step_->is_repeatable(u)) continue;
        units_.push_back(u);
        total += step_->seconds(u);
    }
    // A move changes the seconds by about as much as one unit costs.
    first_temperature_ = units_.empty() ? 0 : total / static_cast<double>(units_.size());
    price_ = first_temperature_;
    lowest_ = state_;
    cost_ = judge(state_);
    lowest_peak_ = cost_.memory.peak;
    if (lowest_peak_ <= limit_) {
        best_ = state_;
        best_seconds_ = cost_.seconds;
    }
}

RepeatWalk::Cost RepeatWalk::judge(const std::vector<std::uint8_t>& repeated) {
    Cost cost;
    const auto sequence = step_->late_sequence(repeated, cost.seconds);
    cost.memory = step_->memory(sequence, limit_);
    return cost;
}

void RepeatWalk::change() {
    next_ = state_;
    const std::uint64_t count = units_.size();
    const std::uint64_t first = random_.below(count);
    const std::uint64_t kind = random_.below(4);
    if (kind < 2) {
        next_[units_[first]] ^= 1;
    } else if (kind == 2) {
        const std::uint64_t length = 1 + random_.below(1 + random_.below(kLongestRun));
        const std::uint8_t value = next_[units_[first]] ^ 1;
        for (std::uint64_t i = first; i < std::min(count, first + length); ++i) {
            next_[units_[i]] = value;
        }
    } else {
        // Exchanges the unit with the nearest one behind it, in a random distance, that differs.
        const std::uint64_t start = random_.below(count);
        for (std::uint64_t step = 0; step < count; ++step) {
            const std::int32_t other = units_[(start + step) % count];
            if (next_[other] == next_[units_[first]]) continue;
            std::swap(next_[other], next_[units_[first]]);
            break;
        }
    }
}

void RepeatWalk::run(std::int64_t moves, double warmth, double coolness, Stop& stop) {
    if (units_.empty()) return;
    for (std::int64_t move = 0; move < moves; ++move) {
        stop.poll();
        ++tried_;
        const double share = static_cast<double>(move) / static_cast<double>(moves);
        const double temperature =
            first_temperature_ * warmth * std::pow(coolness / warmth, share);
        change();
        const Cost found = judge(next_);
        const double worse = found.seconds - cost_.seconds +
                             price_ * (found.memory.excess - cost_.memory.excess);
        const double draw =
            static_cast<double>(1 + random_.below(std::uint64_t{1} << 32)) / 4294967296.0;
        if (worse <= 0 || std::exp(-worse / temperature) >= draw) {
            state_.swap(next_);
            cost_ = found;
        }
        if (cost_.memory.peak < lowest_peak_) {
            lowest_peak_ = cost_.memory.peak;
            lowest_ = state_;
        }
        if (cost_.memory.peak <= limit_ && (best_.empty() || cost_.seconds < best_seconds_)) {
            best_ = state_;
            best_seconds_ = cost_.seconds;
        }
        price_ *= cost_.memory.peak > limit_ ? kPriceStep : 1 / kPriceStep;
    }
}

}  // namespace gapless
