#include "exact/search_problem.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

void require_columns(const SearchProblem& problem) {
    require_count("modulus", problem.modulus.size());
    require_block_conditions(problem.modulus, problem.residue, problem.pinned);
    if (problem.size.size() > static_cast<std::size_t>(kMostMembers)) {
        throw std::length_error("field size: at most " + std::to_string(kMostMembers) +
                                " members are taken, found " + std::to_string(problem.size.size()));
    }
    require_length("block", problem.block.size(), "member", problem.size.size());
    require_length("before", problem.before.size(), "member", problem.size.size());
    require_indices("block", problem.block, "blocks", problem.block_count());
    for (std::size_t m = 1; m < problem.block.size(); ++m) {
        if (problem.block[m] >= problem.block[m - 1]) continue;
        refuse("block", m,
               "members come by their blocks, after " + std::to_string(problem.block[m - 1]),
               problem.block[m]);
    }
    require_length("lifetime", problem.lifetime.size(), "member", problem.size.size());
    for (std::size_t m = 0; m < problem.lifetime.size(); ++m) {
        // NaN would break the comparisons of an order.
        if (problem.lifetime[m] >= 0) continue;
        throw std::invalid_argument("field lifetime, entry " + std::to_string(m) +
                                    ": at least 0 is needed, found " +
                                    std::to_string(problem.lifetime[m]));
    }
    require_at_least("size", problem.size, 1);
    require_total("size", problem.size);
    require_total("before", problem.before);
}

std::int64_t horizon_of(const SearchProblem& problem) {
    std::int64_t farthest = 0;
    for (const std::int64_t pin : problem.pinned) farthest = std::max(farthest, pin);
    const std::int64_t total =
        require_total("modulus", problem.modulus, require_total("pinned", {&farthest, 1}));
    return require_total("size", problem.extents(), total);
}

void add_ranges(SearchProblem& problem, std::span<const std::int64_t> rows) {
    const std::int64_t members = problem.member_count();
    problem.range_offsets.assign(problem.size.size() + 1, 0);
    std::int64_t member_before = 0, last_before = 0, entries = 0;
    for (std::size_t i = 0; i + 2 < rows.size(); i += 3) {
        const std::int64_t member = rows[i], first = rows[i + 1], last = rows[i + 2];
        require_index("rows", member, "members", members);
        if (member < member_before) {
            refuse("rows", i / 3,
                   "rows are sorted by member, after " + std::to_string(member_before), member);
        }
        if (member > member_before) last_before = 0;
        if (first < last_before) {
            refuse("rows", i / 3,
                   "member " + std::to_string(member) + " goes on at or above section " +
                       std::to_string(last_before),
                   first);
        }
        if (last <= first || last > problem.sections) {
            refuse("rows", i / 3,
                   "sections end above their first, " + std::to_string(first) +
                       ", and at most at " + std::to_string(problem.sections),
                   last);
        }
        member_before = member;
        last_before = last;
        entries += last - first;
        ++problem.range_offsets[member + 1];
        problem.ranges.push_back(
            {static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)});
    }
    entries = std::max<std::int64_t>(entries, problem.sections);
    if (entries > kMostNeighbours) {
        throw std::length_error("field rows: at most " + std::to_string(kMostNeighbours) +
                                " sections of members are taken, found " + std::to_string(entries));
    }
    for (std::int32_t m = 0; m < members; ++m) {
        if (problem.range_offsets[m + 1] == 0) {
            throw std::invalid_argument("field rows: every member needs a section, found none of " +
                                        std::to_string(m));
        }
        problem.range_offsets[m + 1] += problem.range_offsets[m];
    }
}

}  // namespace

std::vector<std::int64_t> SearchProblem::extents() const {
    std::vector<std::int64_t> extent(modulus.size(), 0);
    for (std::int32_t m = 0; m < member_count(); ++m) {
        std::int64_t& reach = extent[block[m]];
        reach = std::max(reach, before[m] + size[m]);
    }
    return extent;
}

SearchProblem make_search_problem(SearchProblem columns, std::span<const std::int64_t> rows) {
    require_columns(columns);
    columns.horizon = horizon_of(columns);
    add_ranges(columns, rows);
    return columns;
}

Neighbours neighbours_of(const SearchProblem& problem, Stop& stop) {
    // A member that meets a range is alive in its first section or starts in a later one.
    std::vector<std::vector<std::int32_t>> alive(static_cast<std::size_t>(problem.sections));
    std::vector<std::vector<std::int32_t>> starts(alive.size());
    const std::int32_t members = problem.member_count();
    for (std::int32_t m = 0; m < members; ++m) {
        for (const SectionRange& range : problem.ranges_of(m)) {
            starts[range.first].push_back(m);
            for (std::int32_t s = range.first; s < range.last; ++s) alive[s].push_back(m);
        }
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
        if (total > kMostNeighbours) {
            throw std::length_error("field rows: at most " + std::to_string(kMostNeighbours) +
                                    " unsafe pairs are taken, found more by member " +
                                    std::to_string(m));
        }
        found.offsets.push_back(total);
        stop.poll();
    }
    return found;
}

}  // namespace gapless
