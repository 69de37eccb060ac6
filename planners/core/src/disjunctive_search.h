// Exact search for blocks of any kind, chains among them: which of two lies below the other.
#pragma once

#include <cstdint>

#include "search_problem.h"
#include "stop.h"

namespace gapless {

struct DisjunctiveRules {
    bool lowest = true;
    bool forced = true;
};

// Holds what every question about one problem needs.
class DisjunctiveSearch {
  public:
    explicit DisjunctiveSearch(SearchProblem problem);
    Decision decide(std::int64_t capacity, std::int64_t node_limit, DisjunctiveRules rules,
                    Stop& stop) const;

  private:
    class Engine;

    SearchProblem problem_;
    Neighbours neighbours_;
};

}  // namespace gapless
