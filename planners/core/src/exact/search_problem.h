// The problem of the exact searches: blocks of members, and the sections in which members meet.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/sections.h"
#include "model/stop.h"

namespace gapless {

// Limits the members: a search is as deep as it has members, and its stacks grow with the square.
inline constexpr std::int32_t kMostMembers = 20'000;
// Limits the sections of all members together, and the unsafe pairs.
inline constexpr std::int64_t kMostNeighbours = std::int64_t{1} << 24;

// Two members are unsafe if and only if they share a section. A section is a live set of a time
// line, or a clique of a cover of the unsafe pairs. Every member has a nonzero size.
struct SearchProblem {
    // One entry for each block. Its offset is `residue` modulo `modulus`; or `pinned`, unless that
    // is -1.
    std::vector<std::int64_t> modulus, residue, pinned;
    // One entry for each member, sorted by block: its block, the bytes of the block below it, its
    // size.
    std::vector<std::int32_t> block;
    std::vector<std::int64_t> before, size;
    // Length of the lifetime in steps, a key for orders. It may exceed an int64.
    std::vector<double> lifetime;
    // The sections of member m are ranges[range_offsets[m]:range_offsets[m + 1]].
    std::vector<std::int64_t> range_offsets;
    std::vector<SectionRange> ranges;
    std::int32_t sections = 0;
    // A capacity that suffices for some plan, unless pins conflict.
    std::int64_t horizon = 0;

    std::int32_t block_count() const { return static_cast<std::int32_t>(modulus.size()); }
    std::int32_t member_count() const { return static_cast<std::int32_t>(size.size()); }
    // The offset of a block modulo its modulus, also of a pinned one.
    std::int64_t residue_of(std::int32_t b) const {
        return (pinned[b] >= 0 ? pinned[b] : residue[b]) & (modulus[b] - 1);
    }
    // The bytes of each block.
    std::vector<std::int64_t> extents() const;
    std::span<const SectionRange> ranges_of(std::int32_t member) const {
        return {ranges.data() + range_offsets[member],
                static_cast<std::size_t>(range_offsets[member + 1] - range_offsets[member])};
    }
};

// Fills in the horizon, and the ranges from rows (member, first, last), sorted by member. Throws
// std::out_of_range if a block does not exist, std::invalid_argument if columns do not fit
// together, std::overflow_error for more bytes than any problem may have, and std::length_error for
// more members or sections than a search allows.
SearchProblem make_search_problem(SearchProblem columns, std::span<const std::int64_t> rows);

// The answer to the question whether a plan fits into a capacity.
enum class Verdict { kFits, kRefuted, kNodeLimit };

// Counts of a search's nodes and events.
struct SearchCounters {
    std::int64_t nodes = 0;
    // Nodes that each rule refuted. The disjunctive search counts all of its refuted nodes as
    // `by_section`, because it tightens pairs and sections together.
    std::int64_t by_section = 0, by_passed_over = 0, by_dominance = 0, by_memory = 0;
    // Candidates that each rule skipped.
    std::int64_t dominated = 0, identical = 0;
    // Bounds that rules raised, and nodes that split into independent parts.
    std::int64_t raised = 0, splits = 0;
};

struct Decision {
    Verdict verdict;
    // One offset for each block if a plan fits, otherwise empty.
    std::vector<std::int64_t> offsets;
    SearchCounters counters;
    // The disjunctive search's proof on request, node by node: the number of some members, the
    // members, and for each of them the proof of the node in which it is the lowest; or 0 if rules
    // refute the node.
    std::vector<std::int32_t> tree;
};

// For every member, the other members that share a section with it, sorted. Throws
// std::length_error if there are more than kMostNeighbours in all.
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
