// Exact search for blocks of any kind, including chains: decides which of two blocks lies below.
#pragma once

#include <cstdint>

#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// Which overlap is decided first: of the largest tensors, or of those with the least room to part.
// Or which of the members of a section is the lowest.
enum class Branching { kLargest, kLeastRoom, kLowest };

// Rules that can be switched off one by one for an ablation.
struct DisjunctiveRules {
    bool lowest = true;
    bool forced = true;
};

// Holds the data that all questions about one problem share.
class DisjunctiveSearch {
  public:
    DisjunctiveSearch(SearchProblem problem, Stop& stop);
    Decision decide(std::int64_t capacity, std::int64_t node_limit, Branching branching,
                    DisjunctiveRules rules, bool logs, Stop& stop) const;

  private:
    class Engine;

    SearchProblem problem_;
    Neighbours neighbours_;
};

}  // namespace gapless
