// What the exact searches place: blocks of members, and the sections in which members meet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sections.h"
#include "model/stop.h"

namespace gapless {

// A search goes as deep as it has members, and what it keeps on its way grows with the square.
inline constexpr std::int32_t kMostMembers = 20'000;
// Sections of all members together, and unsafe pairs.
inline constexpr std::int64_t kMostNeighbours = std::int64_t{1} << 24;

// Members are unsafe exactly where they share a section: a live set of a time line, or a clique of
// a cover of the unsafe pairs. Every member has bytes.
struct SearchProblem {
    // One entry a block. Its offset is `residue` modulo `modulus`, or given.
    std::vector<std::int64_t> modulus, residue, pinned;
    // One entry a member, sorted by block: the bytes of its block below it, and its own.
    std::vector<std::int32_t> block;
    std::vector<std::int64_t> before, size;
    // The steps that it lives, for orders to sort by; they may be more than an int64 holds.
    std::vector<double> lifetime;
    // Member m meets others in ranges[range_offsets[m]:range_offsets[m + 1]].
    std::vector<std::int64_t> range_offsets;
    std::vector<SectionRange> ranges;
    std::int32_t sections = 0;
    // Some plan stays within, unless pins conflict.
    std::int64_t horizon = 0;

    std::int32_t block_count() const { return static_cast<std::int32_t>(modulus.size()); }
    std::int32_t member_count() const { return static_cast<std::int32_t>(size.size()); }
    std::span<const SectionRange> ranges_of(std::int32_t member) const {
        return {ranges.data() + range_offsets[member],
                static_cast<std::size_t>(range_offsets[member + 1] - range_offsets[member])};
    }
};

// Fills in the ranges from rows (member, first, last), sorted by member, and the horizon. Throws
// std::out_of_range for a block that does not exist, std::invalid_argument where columns do not fit
// together, std::overflow_error for more bytes than any problem has, std::length_error for more
// members or sections than a search takes.
SearchProblem make_search_problem(SearchProblem columns, std::span<const std::int64_t> rows);

// What is known of the question whether a plan stays within a capacity.
enum class Verdict { kFits, kRefuted, kNodeLimit };

// How often a search did what.
struct SearchCounters {
    std::int64_t nodes = 0;
    // Nodes that a rule refuted. The disjunctive search counts all of its own as `by_section`:
    // bounds from pairs and from sections meet in one fixed point.
    std::int64_t by_section = 0, by_passed_over = 0, by_dominance = 0, by_memory = 0;
    // Candidates that a rule passed over.
    std::int64_t dominated = 0, identical = 0;
    // Bounds that a rule raised, and nodes that fell into independent parts.
    std::int64_t raised = 0, splits = 0;
};

struct Decision {
    Verdict verdict;
    // One a block where a plan fits, otherwise empty.
    std::vector<std::int64_t> offsets;
    SearchCounters counters;
};

// For every member, the others it shares a section with, sorted. Throws std::length_error where
// there are more than kMostNeighbours in all.
struct Neighbours {
    std::vector<std::int64_t> offsets;
    std::vector<std::int32_t> members;

    std::span<const std::int32_t> of(std::int32_t member) const {
        return {members.data() + offsets[member],
                static_cast<std::size_t>(offsets[member + 1] - offsets[member])};
    }
};
Neighbours neighbours_of(const SearchProblem& problem, Stop& stop);

}  // namespace gapless
