// Exact search for single tensors: builds plans bottom up, in one canonical order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exact/canonical_bounds.h"
#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// The keys by which an order sorts the tensors. All keys put the largest first, except the earliest
// start and the earliest end. A section key takes the tensor's fullest section: by its unplaced
// bytes, or by its total, which adds the height of the placed tensors. The lifetime is in steps;
// the area is the lifetime times the size.
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
    // The order of the tensors. Every independent part is sorted by it again, by its unplaced
    // tensors.
    std::vector<SearchKey> order;
    std::int64_t node_limit;
    // In how many of a thousand nodes, drawn at random, a candidate other than the first is tried
    // first. Unless it is 0, the rule `memory` is off.
    std::int32_t wander = 0;
    std::uint32_t seed = 0;
    CanonicalRules rules;
};

// Holds the data that all questions about one problem share. Every block must have one member.
class CanonicalSearch {
  public:
    // Throws std::invalid_argument if a block has more than one member.
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
