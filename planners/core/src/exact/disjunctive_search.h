// Exact search for blocks of any kind, including chains: decides which of two blocks lies below.
#pragma once

#include <cstdint>
#include <vector>

#include "exact/clashes.h"
#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// Holds the data that all questions about one problem share, and how often each block was to blame.
class DisjunctiveSearch {
  public:
    DisjunctiveSearch(SearchProblem problem, Stop& stop);
    // Without `forced`, bounds move by decisions alone.
    Decision decide(std::int64_t capacity, std::int64_t node_limit, bool forced, bool logs,
                    Stop& stop);

  private:
    class Engine;

    SearchProblem problem_;
    Neighbours neighbours_;
    Clashes clashes_;
    // How often each block was to blame for a refutation, plus 1.
    std::vector<double> blame_;
};

}  // namespace gapless
