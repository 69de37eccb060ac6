// The heaviest set of tensors that are pairwise unsafe, by one minimum flow.
#pragma once

#include <cstdint>
#include <vector>

#include "graph.h"
#include "stop.h"

namespace gapless {

struct Antichain {
    std::int64_t bytes = 0;
    std::vector<std::int32_t> tensors;
};

// Exact. `size` has one entry a tensor. See the Note in antichain.cpp.
Antichain heaviest_antichain(const Graph& graph, const std::vector<std::int64_t>& size, Stop& stop);

}  // namespace gapless
