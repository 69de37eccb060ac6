// The partial plan of a canonical search: the placed tensors and those left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exact/search_problem.h"

namespace gapless {

// Numbers are 32 or 64 bits wide, as the problem requires.
template <class Bytes>
class CanonicalState {
  public:
    CanonicalState(const SearchProblem& searched, const Neighbours& neighbours_of_each)
        : problem(searched), neighbours(neighbours_of_each) {
        for (std::int32_t t = 0; t < problem.member_count(); ++t) {
            size.push_back(static_cast<Bytes>(problem.size[t]));
            mask_.push_back(static_cast<Bytes>(problem.modulus[t] - 1));
            residue_.push_back(static_cast<Bytes>(problem.residue[t]));
            pinned.push_back(static_cast<Bytes>(problem.pinned[t]));
            if (problem.pinned[t] >= 0) has_pins = true;
            const auto ranges = problem.ranges_of(t);
            first.push_back(ranges.front().first);
            last.push_back(ranges.back().last);
        }
    }

    // Begins with nothing placed. A capacity below 0 holds nothing; it is set to -1, which fits 32
    // bits.
    void start(std::int64_t bytes) {
        capacity = static_cast<Bytes>(std::max<std::int64_t>(bytes, -1));
        const auto sections = static_cast<std::size_t>(problem.sections);
        height.assign(sections, 0);
        remaining.assign(sections, 0);
        crossing.assign(sections + 1, 0);
        left.assign(size.size(), 1);
        low.assign(size.size(), 0);
        changes_.clear();
        placements_.clear();
        for (std::int32_t t = 0; t < problem.member_count(); ++t) {
            low[t] = pinned[t] >= 0 ? pinned[t] : align(t, 0);
            count_in(t, 1);
        }
    }

    Bytes align(std::int32_t t, Bytes at) const { return at + ((residue_[t] - at) & mask_[t]); }

    template <class Visit>
    void for_sections(std::int32_t t, Visit visit) const {
        for (const SectionRange& range : problem.ranges_of(t)) {
            for (std::int32_t s = range.first; s < range.last; ++s) visit(s);
        }
    }

    // Places a tensor at its low; returns true if its unplaced neighbours still fit above it.
    bool place(std::int32_t t) {
        placements_.push_back({t, changes_.size()});
        const Bytes end = low[t] + size[t];
        left[t] = 0;
        count_in(t, -1);
        for_sections(t, [&](std::int32_t s) {
            changes_.push_back({~s, height[s]});
            height[s] = end;
        });
        bool fits = true;
        for (const std::int32_t other : neighbours.of(t)) {
            if (!left[other] || low[other] >= end) continue;
            if (pinned[other] >= 0) {
                fits = false;
                continue;
            }
            changes_.push_back({other, low[other]});
            low[other] = align(other, end);
            if (low[other] > capacity - size[other]) fits = false;
        }
        return fits;
    }

    std::size_t placed() const { return placements_.size(); }

    // Takes placements back until only the first `placements` are left.
    void undo_to(std::size_t placements) {
        while (placements_.size() > placements) {
            const Placement undone = placements_.back();
            placements_.pop_back();
            while (changes_.size() > undone.changes) {
                const Change change = changes_.back();
                changes_.pop_back();
                (change.where < 0 ? height[~change.where] : low[change.where]) = change.before;
            }
            left[undone.tensor] = 1;
            count_in(undone.tensor, 1);
        }
    }

    const SearchProblem& problem;
    const Neighbours& neighbours;
    Bytes capacity = 0;
    bool has_pins = false;
    // For each tensor: its size, its pin or -1, and the range [first, last) of its sections, in
    // which a tensor with gaps has holes.
    std::vector<Bytes> size, pinned;
    std::vector<std::int32_t> first, last;
    // For each tensor: whether it is unplaced; and its least offset above the placed neighbours,
    // its pin, or, when placed, its offset.
    std::vector<char> left;
    std::vector<Bytes> low;
    // For each section: the top of the placed tensors, the unplaced bytes, and the number of
    // unplaced tensors that also lie in the section before.
    std::vector<Bytes> height, remaining;
    std::vector<std::int32_t> crossing;

  private:
    // What a placement changed: the low of a tensor, or, stored as ~section, the height of a
    // section.
    struct Change {
        std::int32_t where;
        Bytes before;
    };
    struct Placement {
        std::int32_t tensor;
        std::size_t changes;
    };

    // Adds a tensor to the unplaced bytes of its sections (sign 1), or removes it (sign -1).
    void count_in(std::int32_t t, std::int32_t sign) {
        const Bytes bytes = sign > 0 ? size[t] : -size[t];
        for_sections(t, [&](std::int32_t s) { remaining[s] += bytes; });
        for (std::int32_t s = first[t] + 1; s < last[t]; ++s) crossing[s] += sign;
    }

    std::vector<Bytes> mask_, residue_;
    std::vector<Change> changes_;
    std::vector<Placement> placements_;
};

}  // namespace gapless
