#include "greedy/placed_list.h"

namespace gapless {

void collect_forbidden(const Instance& instance, const PlacedList& placed, std::int32_t block,
                       std::int64_t floor, std::vector<Interval>& forbidden) {
    forbidden.clear();
    const auto members = instance.blocks.members_of(block);
    for (std::size_t m = 0; m < members.size(); ++m) {
        const std::int64_t bytes = instance.size[members[m]];
        if (bytes == 0) continue;
        const std::int64_t before = instance.blocks.before_of(block, m);
        for (std::size_t i = 0; i < placed.size(); ++i) {
            if (!instance.unsafe(members[m], placed.tensor(i))) continue;
            const std::int64_t end = placed.interval(i).end - before;
            if (end <= floor) continue;
            forbidden.push_back(
                {std::max(floor, placed.interval(i).begin - bytes + 1 - before), end});
        }
    }
    std::sort(forbidden.begin(), forbidden.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
}

void occupy_in(PlacedList& placed, const Instance& instance, std::int32_t block,
               std::int64_t head) {
    const auto members = instance.blocks.members_of(block);
    for (std::size_t m = 0; m < members.size(); ++m) {
        const std::int64_t begin = head + instance.blocks.before_of(block, m);
        const std::int64_t bytes = instance.size[members[m]];
        if (bytes > 0) placed.insert(begin, begin + bytes, members[m]);
    }
}

void vacate_in(PlacedList& placed, const Instance& instance, std::int32_t block,
               std::int64_t head) {
    const auto members = instance.blocks.members_of(block);
    for (std::size_t m = 0; m < members.size(); ++m) {
        const std::int64_t begin = head + instance.blocks.before_of(block, m);
        if (instance.size[members[m]] > 0) placed.erase(begin, members[m]);
    }
}

void offer_all(const Instance& instance, const PlacedList& placed, std::int32_t block,
               std::int64_t floor, std::int64_t limit, std::vector<Interval>& scratch,
               FitChoice& choice) {
    std::int64_t lower = floor;
    const auto pass = [&](std::int64_t begin, std::int64_t end) {
        if (begin > lower && choice.offer(lower, begin, limit)) return true;
        lower = std::max(lower, end);
        return false;
    };
    const auto members = instance.blocks.members_of(block);
    if (members.size() == 1) {
        // For a single tensor, placed tensors in address order forbid starts in rising order: no
        // sort is needed.
        const std::int64_t bytes = instance.size[members[0]];
        const std::uint64_t* row = instance.unsafe_rows->row(members[0]);
        for (std::size_t i = 0; bytes > 0 && i < placed.size(); ++i) {
            const auto other = static_cast<std::size_t>(placed.tensor(i));
            if ((row[other / kWordBits] & BitRows::bit(other)) == 0) continue;
            const Interval& interval = placed.interval(i);
            if (pass(interval.begin - bytes + 1, interval.end)) return;
        }
    } else {
        collect_forbidden(instance, placed, block, floor, scratch);
        for (const Interval& interval : scratch) {
            if (pass(interval.begin, interval.end)) return;
        }
    }
    choice.offer(lower, kNoLimit, limit);
}

}  // namespace gapless
