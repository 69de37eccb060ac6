// The free ranges of starts that placed tensors leave a block, for an instance with rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "greedy/chunked_list.h"
#include "greedy/fit.h"
#include "greedy/intervals.h"
#include "model/instance.h"

namespace gapless {

// Insert or remove the members of a block whose head is at an offset.
template <class Rows>
void occupy_in(ChunkedList& placed, const Instance& instance, const Rows& rows, std::int32_t block,
               std::int64_t head) {
    instance.each_member(
        block, [&](std::size_t, std::int32_t tensor, std::int64_t bytes, std::int64_t before) {
            placed.insert({{head + before, head + before + bytes}, rows.number(tensor)});
        });
}

template <class Rows>
void vacate_in(ChunkedList& placed, const Instance& instance, const Rows& rows, std::int32_t block,
               std::int64_t head) {
    instance.each_member(block,
                         [&](std::size_t, std::int32_t tensor, std::int64_t, std::int64_t before) {
                             placed.erase(head + before, rows.number(tensor));
                         });
}

inline bool is_in(const std::uint64_t* row, std::int32_t number) {
    const auto at = static_cast<std::size_t>(number);
    return (row[at / kWordBits] & BitRows::bit(at)) != 0;
}

// Offers free ranges of starts until the choice is final, given the forbidden starts from low to
// high.
class FreeRanges {
  public:
    FreeRanges(FitChoice& choice, std::int64_t floor, std::int64_t limit)
        : choice_(choice), lower_(floor), limit_(limit) {}

    // Intervals that end at or below this start forbid nothing more.
    const std::int64_t& lower() const { return lower_; }
    // Returns true if the choice is final.
    bool pass(std::int64_t begin, std::int64_t end) {
        if (begin > lower_ && choice_.offer(lower_, begin, limit_)) return true;
        lower_ = std::max(lower_, end);
        return false;
    }
    void end() { choice_.offer(lower_, kNoLimit, limit_); }

  private:
    FitChoice& choice_;
    std::int64_t lower_, limit_;
};

// Offers the free ranges between forbidden starts that are given in any order.
inline void offer_sorted(std::vector<Interval>& forbidden, FreeRanges& ranges) {
    std::sort(forbidden.begin(), forbidden.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    for (const Interval& interval : forbidden) {
        if (ranges.pass(interval.begin, interval.end)) return;
    }
    ranges.end();
}

// Offers every free range of starts in [floor, limit) until the choice is final.
template <class Rows>
void offer_all(const Instance& instance, const ChunkedList& placed, Rows& rows, std::int32_t block,
               std::int64_t floor, std::int64_t limit, std::vector<Interval>& scratch,
               FitChoice& choice) {
    const auto members = instance.blocks.members_of(block);
    FreeRanges ranges(choice, floor, limit);
    if (members.size() == 1) {
        // For a single tensor, placed tensors in address order forbid starts in rising order: no
        // sort is needed.
        const std::int64_t bytes = instance.size[members[0]];
        const std::uint64_t* row = rows.of(block, 0);
        if (bytes > 0 && placed.visit_above(ranges.lower(), [&](const ChunkedList::Placed& other) {
                return is_in(row, other.number) &&
                       ranges.pass(other.interval.begin - bytes + 1, other.interval.end);
            })) {
            return;
        }
        ranges.end();
        return;
    }
    scratch.clear();
    instance.each_member(
        block, [&](std::size_t m, std::int32_t, std::int64_t bytes, std::int64_t before) {
            const std::uint64_t* row = rows.of(block, m);
            placed.visit_above(floor + before, [&](const ChunkedList::Placed& other) {
                if (is_in(row, other.number)) {
                    scratch.push_back({std::max(floor, other.interval.begin - bytes + 1 - before),
                                       other.interval.end - before});
                }
                return false;
            });
        });
    offer_sorted(scratch, ranges);
}

}  // namespace gapless
