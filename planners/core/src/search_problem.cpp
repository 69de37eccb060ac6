#include "search_problem.h"

#include <stdexcept>

namespace gapless {

Neighbours neighbours_of(const SearchProblem& problem, std::int64_t most) {
    std::vector<std::vector<std::int32_t>> alive(static_cast<std::size_t>(problem.sections));
    const std::int32_t members = problem.member_count();
    for (std::int32_t m = 0; m < members; ++m) {
        for (const SectionRange& range : problem.ranges_of(m)) {
            for (std::int32_t s = range.first; s < range.last; ++s) alive[s].push_back(m);
        }
    }
    Neighbours found;
    found.offsets.push_back(0);
    std::vector<char> meets(static_cast<std::size_t>(members), 0);
    for (std::int32_t m = 0; m < members; ++m) {
        for (const SectionRange& range : problem.ranges_of(m)) {
            for (std::int32_t s = range.first; s < range.last; ++s) {
                for (const std::int32_t other : alive[s]) meets[other] = 1;
            }
        }
        meets[m] = 0;
        for (std::int32_t other = 0; other < members; ++other) {
            if (meets[other]) found.members.push_back(other);
            meets[other] = 0;
        }
        const auto total = static_cast<std::int64_t>(found.members.size());
        if (total > most) throw std::length_error("more unsafe pairs than the search takes");
        found.offsets.push_back(total);
    }
    return found;
}

}  // namespace gapless
