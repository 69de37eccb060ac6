// Exact search for blocks of any kind, including chains: decides which of two blocks lies below.
#pragma once

#include <cstdint>
#include <vector>

#include "exact/clashes.h"
#include "exact/search_problem.h"
#include "model/stop.h"

namespace gapless {

// A node decides the order of two blocks that had a part in many refutations and have little room
// to part (kBlamed), or it decides which member of a section is the lowest (kLowest).
enum class Branching { kBlamed, kLowest };

// Rules that can be switched off one by one for an ablation.
struct DisjunctiveRules {
    bool lowest = true;
    bool forced = true;
};

// Holds what all questions about one problem share, and the blame that they gave.
class DisjunctiveSearch {
  public:
    DisjunctiveSearch(SearchProblem problem, Stop& stop);
    Decision decide(std::int64_t capacity, std::int64_t node_limit, Branching branching,
                    DisjunctiveRules rules, bool logs, Stop& stop);

  private:
    class Engine;

    SearchProblem problem_;
    Neighbours neighbours_;
    Clashes clashes_;
    // How often each block was to blame for a refutation, plus 1.
    std::vector<double> blame_;
};

}  // namespace gapless
