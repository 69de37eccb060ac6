// Lower bounds on the offset of each unplaced tensor: the pruning rules of the canonical search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "exact/canonical_state.h"
#include "exact/refuted_states.h"
#include "exact/search_problem.h"
#include "exact/section_passes.h"

namespace gapless {

// Rules that can be switched off one by one for an ablation; see Note [Canonical search].
struct CanonicalRules {
    bool dominance = true;
    bool passed_over = true;
    bool lowest = true;
    bool identical = true;
    bool split = true;
    bool memory = true;
};

template <class Bytes>
class CanonicalBounds {
  public:
    using Position = typename RefutedStates<Bytes>::Position;
    using Tensors = std::span<const std::int32_t>;

    explicit CanonicalBounds(const CanonicalState<Bytes>& state)
        : rank(state.size.size()),
          bound(state.size.size()),
          state_(state),
          blocker_(state.size.size()),
          least_end_(static_cast<std::size_t>(state.problem.sections)),
          most_remaining_(state.size.size()),
          above_(state.size.size()) {}

    void start(const CanonicalRules& rules, SearchCounters& counters) {
        rules_ = rules;
        counters_ = &counters;
        std::iota(blocker_.begin(), blocker_.end(), 0);
    }

    // Notes that a tensor is placed and blocks no other tensor any more.
    void forget(std::int32_t t) { bound[t] = kPlaced; }

    // The least end that any unplaced tensor would have if it were placed next.
    Bytes least_end_of_all() const { return least_end_of_all_; }

    bool passed_over(std::int32_t t, Position position) const {
        return state_.low[t] < position.offset ||
               (state_.low[t] == position.offset && rank[t] < position.rank);
    }

    // Computes the lower bound of each tensor; returns false if the node is refuted.
    bool raise(Tensors tensors, Position position, SectionRange part) {
        if (!first_bounds(tensors, position)) return false;
        for (int round = 0; round < kRounds; ++round) {
            if (rules_.passed_over && !raise_passed_over(tensors, position)) {
                ++counters_->by_passed_over;
                return false;
            }
            if (state_.has_pins) raise_above_pins(tensors);
            if (!sections_fit(tensors, part)) {
                ++counters_->by_section;
                return false;
            }
            if (!rules_.lowest || !raise_above_lowest(tensors)) return true;
        }
        return true;
    }

    // The rank of each tensor within its part, and the lower bound of its offset.
    std::vector<std::int32_t> rank;
    std::vector<Bytes> bound;

  private:
    bool first_bounds(Tensors tensors, Position position) {
        least_end_of_all_ = std::numeric_limits<Bytes>::max();
        for (const std::int32_t t : tensors) {
            least_end_of_all_ = std::min<Bytes>(least_end_of_all_, state_.low[t] + state_.size[t]);
            bound[t] = std::max(bound[t], state_.low[t]);
            if (!passed_over(t, position)) continue;
            if (state_.pinned[t] >= 0) {
                ++counters_->by_passed_over;
                return false;
            }
            const Bytes least = std::max<Bytes>(position.offset, state_.low[t] + 1);
            if (bound[t] < least) bound[t] = state_.align(t, least);
        }
        if (rules_.dominance && least_end_of_all_ <= position.offset) {
            ++counters_->by_dominance;
            return false;
        }
        return true;
    }

    bool raise_passed_over(Tensors tensors, Position position) {
        for (const std::int32_t t : tensors) {
            if (passed_over(t, position) && !raise_above_blocker(t)) return false;
        }
        return true;
    }

    // Raises a tensor above the lowest end of all tensors that may block its low; returns false if
    // none may.
    bool raise_above_blocker(std::int32_t t) {
        const Bytes blocked_below = state_.low[t] + state_.size[t];
        // Returns true if `other` may block the tensor and ends at or below its bound: then nothing
        // rises.
        const auto settles = [&](std::int32_t other) {
            return bound[other] < blocked_below && bound[other] + state_.size[other] <= bound[t];
        };
        if (settles(blocker_[t])) return true;
        Bytes above = kPlaced;
        for (const std::int32_t other : state_.neighbours.of(t)) {
            if (bound[other] >= blocked_below) continue;
            const Bytes end = bound[other] + state_.size[other];
            if (end >= above) continue;
            above = end;
            blocker_[t] = other;
            if (end <= bound[t]) return true;
        }
        if (above == kPlaced) return false;
        raise(t, above);
        return true;
    }

    void raise_above_pins(Tensors tensors) {
        for (const std::int32_t p : tensors) {
            if (state_.pinned[p] < 0) continue;
            for (const std::int32_t t : state_.neighbours.of(p)) {
                if (!state_.left[t] || state_.pinned[t] >= 0) continue;
                if (bound[t] + state_.size[t] > state_.pinned[p] &&
                    bound[t] < state_.pinned[p] + state_.size[p]) {
                    raise(t, state_.pinned[p] + state_.size[p]);
                }
            }
        }
    }

    bool raise(std::int32_t t, Bytes to) {
        if (to <= bound[t]) return false;
        bound[t] = state_.align(t, to);
        ++counters_->raised;
        return true;
    }

    // Computes, for each section, the least end of the tensors that may be lowest there; returns
    // false if none may be.
    bool sections_fit(Tensors tensors, SectionRange part) {
        for (const std::int32_t t : tensors) {
            if (bound[t] > state_.capacity - state_.size[t]) return false;
            if (state_.pinned[t] >= 0 && bound[t] > state_.pinned[t]) return false;
        }
        std::fill(least_end_.begin() + part.first, least_end_.begin() + part.last, kNoEnd);
        offer_ends(state_.problem, columns(tensors), sections(), state_.capacity);
        for (std::int32_t s = part.first; s < part.last; ++s) {
            if (least_end_[s] == kNoEnd && state_.remaining[s] > 0) return false;
        }
        return true;
    }

    // Raises each tensor that cannot be lowest in a section above those that can; returns true if
    // any bound rose.
    bool raise_above_lowest(Tensors tensors) {
        highest_ends(state_.problem, columns(tensors), sections(), state_.capacity, above_.data());
        bool rose = false;
        for (const std::int32_t t : tensors) {
            if (raise(t, above_[t])) rose = true;
        }
        return rose;
    }

    TensorColumns<Bytes> columns(Tensors tensors) {
        return {tensors, state_.size.data(), bound.data(), most_remaining_.data()};
    }

    SectionColumns<Bytes> sections() { return {state_.remaining.data(), least_end_.data()}; }

    // The bound of a placed tensor: it never seems to block another one.
    static constexpr Bytes kPlaced = std::numeric_limits<Bytes>::max();
    static constexpr Bytes kNoEnd = SectionColumns<Bytes>::kNoEnd;
    static constexpr int kRounds = 3;

    const CanonicalState<Bytes>& state_;
    CanonicalRules rules_;
    SearchCounters* counters_ = nullptr;
    // The tensor that blocked each tensor last; at first the tensor itself, which never blocks.
    std::vector<std::int32_t> blocker_;
    Bytes least_end_of_all_ = 0;
    // For each section: the least end of the tensors that may be lowest there.
    std::vector<Bytes> least_end_;
    // For each tensor: the most unplaced bytes in one of its sections, and the offset it must lie
    // above.
    std::vector<Bytes> most_remaining_, above_;
};

}  // namespace gapless
