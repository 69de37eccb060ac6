// The free bytes of a pool, as the ranges between its blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>

#include "allocator/node_pool.h"
#include "online/stweaver_profile.h"

namespace gapless::runtime {

// Source: Huang et al. 2026, section 6.2: the available address intervals.
class FreeRanges {
  public:
    using Ranges = std::pmr::map<std::size_t, std::size_t>;  // begin and end, which do not touch

    FreeRanges() : ranges_(&nodes_) {}
    FreeRanges(const FreeRanges&) = delete;
    FreeRanges& operator=(const FreeRanges&) = delete;

    const Ranges& ranges() const { return ranges_; }

    // Takes bytes [begin, end); false where one of them is taken.
    bool take(std::size_t begin, std::size_t end) {
        auto range = ranges_.upper_bound(begin);
        if (range == ranges_.begin()) return false;
        --range;
        const std::size_t range_end = range->second;
        if (range_end < end) return false;
        if (range->first == begin) {
            if (range_end == end) {
                ranges_.erase(range);
            } else {
                auto node = ranges_.extract(range);
                node.key() = end;
                ranges_.insert(std::move(node));
            }
            return true;
        }
        range->second = begin;
        if (end < range_end) ranges_.emplace_hint(std::next(range), end, range_end);
        return true;
    }

    // Bytes [begin, end), which are taken, become free.
    void put(std::size_t begin, std::size_t end) {
        auto behind = ranges_.lower_bound(begin);
        if (behind != ranges_.begin()) {
            const auto before = std::prev(behind);
            if (before->second == begin) {
                before->second = end;
                if (behind != ranges_.end() && behind->first == end) {
                    before->second = behind->second;
                    ranges_.erase(behind);
                }
                return;
            }
        }
        if (behind != ranges_.end() && behind->first == end) {
            end = behind->second;
            behind = ranges_.erase(behind);
        }
        ranges_.emplace_hint(behind, begin, end);
    }

    // The begin of the smallest free run of at least so many bytes within ascending intervals, of
    // equal ones the lowest.
    // Source: Huang et al. 2026, section 6.2, equation 6.
    std::optional<std::size_t> best_fit(const PoolRange* first, const PoolRange* last,
                                        std::size_t bytes) const {
        std::optional<std::size_t> best;
        std::size_t least = 0;
        for (; first != last; ++first) {
            if (first->end - first->begin < bytes) continue;
            auto range = ranges_.upper_bound(first->begin);
            if (range != ranges_.begin()) --range;
            for (; range != ranges_.end() && range->first < first->end; ++range) {
                const std::size_t begin = std::max(range->first, first->begin);
                const std::size_t end = std::min(range->second, first->end);
                if (end < begin + bytes || (best && least <= end - begin)) continue;
                best = begin;
                least = end - begin;
                if (least == bytes) return best;
            }
        }
        return best;
    }

  private:
    NodePool nodes_;
    Ranges ranges_;
};

}  // namespace gapless::runtime
