// The placed tensors of an instance with rows of unsafe pairs, by address.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "greedy/fit.h"
#include "greedy/intervals.h"
#include "model/instance.h"

namespace gapless {

// Placed tensors sorted by offset.
class PlacedList {
  public:
    void insert(std::int64_t begin, std::int64_t end, std::int32_t tensor) {
        const auto at =
            std::upper_bound(intervals_.begin(), intervals_.end(), begin,
                             [](std::int64_t b, const Interval& s) { return b < s.begin; });
        tensors_.insert(tensors_.begin() + (at - intervals_.begin()), tensor);
        intervals_.insert(at, {begin, end});
    }
    // Removes a tensor that was inserted with this begin.
    void erase(std::int64_t begin, std::int32_t tensor) {
        auto at = std::lower_bound(intervals_.begin(), intervals_.end(), begin,
                                   [](const Interval& s, std::int64_t b) { return s.begin < b; });
        while (tensors_[at - intervals_.begin()] != tensor) ++at;
        tensors_.erase(tensors_.begin() + (at - intervals_.begin()));
        intervals_.erase(at);
    }
    std::size_t size() const { return intervals_.size(); }
    const Interval& interval(std::size_t i) const { return intervals_[i]; }
    std::int32_t tensor(std::size_t i) const { return tensors_[i]; }

  private:
    std::vector<Interval> intervals_;
    std::vector<std::int32_t> tensors_;
};

// Algorithm 8, Avoid: the forbidden starts of the block's head, sorted and not merged.
void collect_forbidden(const Instance& instance, const PlacedList& placed, std::int32_t block,
                       std::int64_t floor, std::vector<Interval>& forbidden);

// Insert or remove the members of a block whose head is at an offset.
void occupy_in(PlacedList& placed, const Instance& instance, std::int32_t block, std::int64_t head);
void vacate_in(PlacedList& placed, const Instance& instance, std::int32_t block, std::int64_t head);

// Offers every free range of starts in [floor, limit) until the choice is final.
void offer_all(const Instance& instance, const PlacedList& placed, std::int32_t block,
               std::int64_t floor, std::int64_t limit, std::vector<Interval>& scratch,
               FitChoice& choice);

}  // namespace gapless
