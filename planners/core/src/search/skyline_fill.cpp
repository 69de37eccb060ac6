#include "search/skyline_fill.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "model/random.h"

namespace gapless {

namespace {

// Height of the walls at both ends of time, and of complete sections.
constexpr std::int64_t kWall = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kNone = -1;
// Scales of the reasons, in the order of FillReason. The unit is the weight of one end that a block
// touches. The numbers are guesses.
constexpr FillWeights kScale{1, 1, 8, 1, 4, 2};
// Priorities are drawn from this range. It is wider than [0, 1], so that some new priorities beat
// all first ones.
constexpr double kLeastPriority = -0.5;
constexpr double kMostPriority = 1.5;
// One in this many attempts changes a weight, by at most kMostShift. Guesses.
constexpr std::uint64_t kOneWeightIn = 20;
constexpr double kMostShift = 0.1;
// The most priorities that one attempt changes; mostly it changes one. A guess.
constexpr double kMostChanges = 6;
// One in this many changed blocks is drawn from all blocks. A guess.
constexpr std::uint64_t kOneOfAllIn = 5;

double uniform(Random& random) { return static_cast<double>(random.below(1 << 24)) * 0x1p-24; }

class Filler {
  public:
    Filler(const Instance& instance, const FillWeights& first_weights,
           std::span<const double> first_priority)
        : weights(first_weights),
          priority(first_priority.begin(), first_priority.end()),
          instance_(instance),
          sections_(instance.sections->count()),
          range_(instance.blocks.count()),
          total_(sections_, 0),
          head_(instance.blocks.count(), 0),
          most_to_come_(static_cast<std::size_t>(sections_) + 1) {
        const Blocks& blocks = instance.blocks;
        std::vector<std::int32_t> first, alive;
        for (std::int32_t b = 0; b < blocks.count(); ++b) {
            const auto ranges = instance.sections->of(blocks.members_of(b)[0]);
            if (blocks.members_of(b).size() > 1 || ranges.size() > 1 ||
                blocks.pinned[b] != kNotPinned) {
                throw std::invalid_argument("single tensors without gaps and pins are needed");
            }
            head_[b] = blocks.align(b, 0);
            if (blocks.size[b] == 0) continue;
            range_[b] = ranges[0];
            ++blocks_;
            for (std::int32_t s = range_[b].first; s < range_[b].last; ++s) {
                total_[s] += blocks.size[b];
            }
        }
        sort_by_start();
        for (const std::int64_t total : total_) {
            bound_ = std::max(bound_, static_cast<double>(total));
        }
    }

    FillWeights weights;
    std::vector<double> priority;

    // Grows a plan while it can stay below the limit. Returns true if the plan is complete.
    bool fill(std::int64_t limit, Stop& stop) {
        to_come_ = total_;
        height_.resize(sections_);
        for (std::int32_t s = 0; s < sections_; ++s) height_[s] = total_[s] > 0 ? 0 : kWall;
        left_ = starting_;
        count_.resize(sections_);
        for (std::int32_t s = 0; s < sections_; ++s) count_[s] = begin_[s + 1] - begin_[s];
        worth_ = 0;
        failed_ = kNone;
        for (std::int32_t placed = 0; placed < blocks_;) {
            stop.poll();
            find_place();
            if (!find_best()) {
                // At least one wall is finite, since a block that is left and does not fit reaches
                // beyond it.
                raise(first_, last_, std::min(left_wall_, right_wall_), limit);
            } else {
                put(limit);
                ++placed;
            }
            if (failed_ != kNone) return false;
        }
        return true;
    }

    double worth() const { return worth_; }

    std::vector<std::int64_t> offsets() const {
        std::vector<std::int64_t> offsets(instance_.size.size());
        for (std::int32_t b = 0; b < instance_.blocks.count(); ++b) {
            offsets[instance_.blocks.members_of(b)[0]] = head_[b];
        }
        return offsets;
    }

    // Returns a block to change: mostly one that is alive in the section where the attempt failed,
    // or at the same time as such a block.
    std::int32_t near_failure(std::int32_t failed, Random& random) {
        if (failed == kNone || random.below(kOneOfAllIn) == 0) return any(starting_, random);
        const std::int32_t there = any_alive(failed, random);
        if (random.below(2) == 0) return there;
        const SectionRange& range = range_[there];
        const std::uint64_t length = range.last - range.first;
        return any_alive(range.first + static_cast<std::int32_t>(random.below(length)), random);
    }
    std::int32_t failed() const { return failed_; }
    bool empty() const { return blocks_ == 0; }

  private:
    static std::int32_t any(std::span<const std::int32_t> blocks, Random& random) {
        return blocks[random.below(blocks.size())];
    }

    std::int32_t any_alive(std::int32_t section, Random& random) {
        alive_.clear();
        for (const std::int32_t b : starting_) {
            if (range_[b].first <= section && section < range_[b].last) alive_.push_back(b);
        }
        return any(alive_, random);
    }

    void sort_by_start() {
        begin_.assign(static_cast<std::size_t>(sections_) + 1, 0);
        for (const SectionRange& range : range_) {
            if (range.first < range.last) ++begin_[range.first + 1];
        }
        for (std::int32_t s = 0; s < sections_; ++s) begin_[s + 1] += begin_[s];
        starting_.resize(blocks_);
        std::vector<std::int32_t> next = begin_;
        for (std::int32_t b = 0; b < instance_.blocks.count(); ++b) {
            if (range_[b].first < range_[b].last) starting_[next[range_[b].first]++] = b;
        }
    }

    // Finds the lowest place, [first_, last_) between its walls.
    void find_place() {
        const auto lowest = std::min_element(height_.begin(), height_.end());
        first_ = last_ = static_cast<std::int32_t>(lowest - height_.begin());
        while (last_ < sections_ && height_[last_] == *lowest) ++last_;
        left_wall_ = first_ > 0 ? height_[first_ - 1] : kWall;
        right_wall_ = last_ < sections_ ? height_[last_] : kWall;
    }

    // Finds the block with the highest score inside the place.
    bool find_best() {
        const Blocks& blocks = instance_.blocks;
        const std::int64_t floor = height_[first_];
        const double a_section = weights[kWidth] / (last_ - first_);
        const double a_byte_to_come = kScale[kLoad] * weights[kLoad] / bound_;
        const double a_byte = kScale[kSize] * weights[kSize] / bound_;
        const double a_priority = kScale[kPriority] * weights[kPriority];
        double best = 0;
        chosen_ = kNone;
        for (std::int32_t s = first_; s < last_; ++s) {
            if (count_[s] == 0) continue;
            std::int64_t most = 0;
            for (std::int32_t e = s; e < last_; ++e) {
                most = std::max(most, to_come_[e]);
                most_to_come_[e + 1] = most;
            }
            for (std::int32_t k = 0; k < count_[s]; ++k) {
                const std::int32_t entry = begin_[s] + k;
                const std::int32_t b = left_[entry];
                const std::int32_t end = range_[b].last;
                if (end > last_) continue;
                const std::int64_t size = blocks.size[b];
                double reasons = 0;
                if (s == first_) {
                    reasons += weights[kEnds];
                    if (left_wall_ - floor == size) reasons += weights[kFlush];
                }
                if (end == last_) {
                    reasons += weights[kEnds];
                    if (right_wall_ - floor == size) reasons += weights[kFlush];
                }
                reasons += a_byte_to_come * static_cast<double>(most_to_come_[end]);
                reasons += a_section * (end - s) + a_byte * static_cast<double>(size);
                reasons += a_priority * priority[b];
                if (chosen_ == kNone || reasons > best) {
                    best = reasons;
                    chosen_ = b;
                    entry_ = entry;
                }
            }
        }
        return chosen_ != kNone;
    }

    void put(std::int64_t limit) {
        const auto [first, last] = range_[chosen_];
        const std::int64_t size = instance_.blocks.size[chosen_];
        head_[chosen_] = instance_.blocks.align(chosen_, height_[first]);
        raise(first, last, head_[chosen_], limit);
        for (std::int32_t s = first; s < last; ++s) {
            height_[s] += size;
            to_come_[s] -= size;
            if (to_come_[s] == 0) height_[s] = kWall;
        }
        worth_ += static_cast<double>(size) * (last - first);
        left_[entry_] = left_[begin_[first] + --count_[first]];
    }

    // Leaves sections empty up to the height `up`.
    void raise(std::int32_t first, std::int32_t last, std::int64_t up, std::int64_t limit) {
        for (std::int32_t s = first; s < last; ++s) {
            height_[s] = up;
            if (up >= limit - to_come_[s]) failed_ = s;
        }
    }

    const Instance& instance_;
    std::int32_t sections_;
    std::int32_t blocks_ = 0;
    std::vector<SectionRange> range_;
    // The bytes of each section, and the largest of these sums.
    std::vector<std::int64_t> total_;
    double bound_ = 1;
    // The blocks of nonzero size sorted by their first section, and where each section's blocks
    // begin.
    std::vector<std::int32_t> starting_, begin_;
    std::vector<std::int32_t> alive_;

    // State of the growing plan. In each section's row of `left_`, the first `count_` blocks are
    // still to be placed. A section that is complete counts as a wall.
    std::vector<std::int64_t> height_, to_come_, head_;
    std::vector<std::int32_t> left_, count_;
    double worth_ = 0;
    std::int32_t failed_ = kNone;

    std::int32_t first_ = 0, last_ = 0;
    // Running maximum of `to_come_` from one section of the place to another.
    std::vector<std::int64_t> most_to_come_;
    std::int64_t left_wall_ = kWall, right_wall_ = kWall;
    std::int32_t chosen_ = kNone, entry_ = 0;
};

}  // namespace

FillStep search_fills(const Instance& instance, const FillWeights& weights,
                      std::span<const double> priority, std::int64_t limit, std::int64_t attempts,
                      std::uint64_t seed, Stop& stop) {
    if (!instance.sections) throw std::invalid_argument("sections of lifetimes are needed");
    if (priority.size() != static_cast<std::size_t>(instance.blocks.count())) {
        throw std::invalid_argument("priority: one a block is needed, " +
                                    std::to_string(instance.blocks.count()) + ", found " +
                                    std::to_string(priority.size()));
    }
    const auto is_finite = [](double reason) { return std::isfinite(reason); };
    if (!std::ranges::all_of(weights, is_finite) || !std::ranges::all_of(priority, is_finite)) {
        throw std::invalid_argument("weights, priority: finite numbers are needed");
    }
    Random random(seed);
    Filler filler(instance, weights, priority);
    FillStep step;
    // No plan stays below a limit of 0, and without blocks there is nothing to vary.
    if (filler.empty() || limit <= 0) attempts = 0;
    double kept_worth = -1;
    std::int32_t kept_failed = kNone;
    FillWeights kept_weights = weights;
    std::vector<std::pair<std::int32_t, double>> before;
    while (step.attempts < attempts) {
        if (step.attempts++ > 0) {
            before.clear();
            const int changes =
                1 + static_cast<int>(kMostChanges * uniform(random) * uniform(random));
            for (int c = 0; c < changes; ++c) {
                const std::int32_t b = filler.near_failure(kept_failed, random);
                before.emplace_back(b, filler.priority[b]);
                filler.priority[b] =
                    kLeastPriority + (kMostPriority - kLeastPriority) * uniform(random);
            }
            if (random.below(kOneWeightIn) == 0) {
                filler.weights[random.below(kReasons)] += kMostShift * (2 * uniform(random) - 1);
            }
        }
        if (filler.fill(limit, stop)) {
            step.offsets = filler.offsets();
            break;
        }
        if (filler.worth() >= kept_worth) {
            kept_worth = filler.worth();
            kept_failed = filler.failed();
            kept_weights = filler.weights;
            continue;
        }
        filler.weights = kept_weights;
        // Undo in reverse order, because a block may have changed twice.
        for (auto change = before.rbegin(); change != before.rend(); ++change) {
            filler.priority[change->first] = change->second;
        }
    }
    step.weights = filler.weights;
    step.priority = std::move(filler.priority);
    return step;
}

}  // namespace gapless
