// A graph whose nodes can be listed in another order, and the lower bound of each such order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/antichain.h"
#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// The columns of a graph. Nodes keep their given numbers; the columns have the meaning of Graph's.
struct GraphColumns {
    std::vector<std::int32_t> stream, producer;
    std::vector<std::int64_t> consumer_offsets;
    std::vector<std::int32_t> consumers, control_pairs;
    std::vector<std::int64_t> size;

    // Throws std::out_of_range if a column names a node that does not exist, and
    // std::invalid_argument if the columns do not fit together.
    void require(std::size_t nodes) const;

    // Returns the same graph with its nodes in another order. Call require() first.
    Graph in_order(std::span<const std::int32_t> order) const;

    // The heaviest antichain of the graph in that order.
    Antichain heaviest(std::span<const std::int32_t> order, Stop& stop) const;
};

}  // namespace gapless
