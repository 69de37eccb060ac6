// The rule by which a block takes one of the free ranges of start offsets.
#pragma once

#include <algorithm>
#include <cstdint>

#include "greedy/placement.h"
#include "model/instance.h"

namespace gapless {

// Algorithm 10, with 11 and 12: chooses among the free ranges of start offsets. The ranges are
// offered from low to high, so of equal gaps the lowest is chosen.
//
// The gap above all placed tensors counts as unbounded, as in the paper. A chain may also reach
// above `top` from a bounded range of starts, if a member in its middle meets a tensor there. Such
// a range is not a hole to fill, so it is unbounded too. (Under the paper's chain rule it keeps
// its length, as published.)
class FitChoice {
  public:
    FitChoice(const Instance& instance, std::int32_t block, PlacementRules rules,
              std::int64_t top = kNoLimit)
        : blocks_(instance.blocks), block_(block), fit_(rules.fit), top_(top) {
        const auto members = blocks_.members_of(block);
        paper_chain_ = rules.chain_rule == ChainRule::kPaper && members.size() > 1;
        if (paper_chain_) room_needed_ = instance.size[members[0]];
    }

    // Offers the starts [lower, upper) that are below `limit`. `limit` is one past the last start
    // for which the object has room. Returns true if the choice is final.
    bool offer(std::int64_t lower, std::int64_t upper, std::int64_t limit = kNoLimit) {
        const std::int64_t end = std::min(upper, limit);
        const std::int64_t start = blocks_.align(block_, lower);
        if (start >= end) return false;
        std::int64_t gap = start + blocks_.size[block_] > top_ ? kNoLimit : end - lower;
        if (paper_chain_) {
            if (upper != kNoLimit && upper - lower < room_needed_) return false;
            gap = upper != kNoLimit   ? upper - lower
                  : limit != kNoLimit ? limit - lower + blocks_.size[block_] - 1
                                      : kNoLimit;
        }
        if (gap < best_gap_ || chosen_ < 0) {
            best_gap_ = gap;
            chosen_ = start;
        }
        // No gap is shorter than a single start, so an exact fit is final too.
        return fit_ == Fit::kFirst || best_gap_ == 1;
    }

    bool found() const { return chosen_ >= 0; }
    std::int64_t chosen() const { return chosen_; }

  private:
    const Blocks& blocks_;
    std::int32_t block_;
    Fit fit_;
    std::int64_t top_;
    bool paper_chain_ = false;
    std::int64_t room_needed_ = 0;
    std::int64_t best_gap_ = kNoLimit;
    std::int64_t chosen_ = -1;
};

}  // namespace gapless
