#include "search_problem.h"

#include <algorithm>
#include <stdexcept>

namespace gapless {

Neighbours neighbours_of(const SearchProblem& problem, std::int64_t most, Stop& stop) {
    // Whoever meets a range is alive in its first section or starts in a later one.
    std::vector<std::vector<std::int32_t>> alive(static_cast<std::size_t>(problem.sections));
    std::vector<std::vector<std::int32_t>> starts(alive.size());
    const std::int32_t members = problem.member_count();
    std::int64_t entries = 0;
    for (std::int32_t m = 0; m < members; ++m) {
        for (const SectionRange& range : problem.ranges_of(m)) {
            starts[range.first].push_back(m);
            entries += range.last - range.first;
            for (std::int32_t s = range.first; s < range.last; ++s) alive[s].push_back(m);
        }
        if (entries > most) throw std::length_error("more live tensors than the search takes");
        stop.poll();
    }
    Neighbours found;
    found.offsets.push_back(0);
    std::vector<std::int32_t> seen(static_cast<std::size_t>(members), -1);
    for (std::int32_t m = 0; m < members; ++m) {
        seen[m] = m;
        const auto begin = static_cast<std::ptrdiff_t>(found.members.size());
        const auto meet = [&](const std::vector<std::int32_t>& others) {
            for (const std::int32_t other : others) {
                if (seen[other] == m) continue;
                seen[other] = m;
                found.members.push_back(other);
            }
        };
        for (const SectionRange& range : problem.ranges_of(m)) {
            meet(alive[range.first]);
            for (std::int32_t s = range.first + 1; s < range.last; ++s) meet(starts[s]);
        }
        std::sort(found.members.begin() + begin, found.members.end());
        const auto total = static_cast<std::int64_t>(found.members.size());
        if (total > most) throw std::length_error("more unsafe pairs than the search takes");
        found.offsets.push_back(total);
        stop.poll();
    }
    return found;
}

}  // namespace gapless
