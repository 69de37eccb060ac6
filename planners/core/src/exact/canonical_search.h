// Exact search for single tensors: place them bottom up, in one canonical order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exact/canonical_bounds.h"
#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// What an order of the tensors sorts by. All but the earliest start and end: largest first.
// Of the sections of a tensor the fullest counts, by the bytes left in it, or its total: these
// above the top of what is placed. The lifetime is in steps, and the area its product with the
// size.
enum class SearchKey {
    kSectionTotal,
    kSectionLeft,
    kSectionCount,
    kLifetime,
    kArea,
    kSize,
    kEarliestStart,
    kLatestStart,
    kLatestEnd,
    kEarliestEnd,
};

struct CanonicalQuestion {
    std::int64_t capacity;
    // Sorts the tensors, and those of every independent part by what it has left.
    std::vector<SearchKey> order;
    std::int64_t node_limit;
    // In how many of a thousand nodes another candidate than the first is tried first, at random.
    // Memory is off where this is not 0.
    std::int32_t wander = 0;
    std::uint32_t seed = 0;
    CanonicalRules rules;
};

// Holds what every question about one problem needs. The problem has one member a block.
class CanonicalSearch {
  public:
    // Throws std::invalid_argument where a block has more than one member.
    CanonicalSearch(SearchProblem problem, Stop& stop);
    ~CanonicalSearch();
    Decision decide(const CanonicalQuestion& question, Stop& stop);

  private:
    template <class Bytes>
    class Engine;

    SearchProblem problem_;
    Neighbours neighbours_;
    // Tensors of equal size, sections and alignment share a group.
    std::vector<std::int32_t> group_;
    std::unique_ptr<Engine<std::int32_t>> narrow_;
    std::unique_ptr<Engine<std::int64_t>> wide_;
};

}  // namespace gapless
