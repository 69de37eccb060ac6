// A graph whose nodes can be listed in another order, and what no plan in that order stays below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/antichain.h"
#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// Columns with nodes numbered as they were given; stream, producer and so on as Graph takes them.
struct GraphColumns {
    std::vector<std::int32_t> stream, producer;
    std::vector<std::int64_t> consumer_offsets;
    std::vector<std::int32_t> consumers, control_pairs;
    std::vector<std::int64_t> size;

    // Throws std::out_of_range for a node or an order that does not exist,
    // std::invalid_argument where columns do not fit together.
    void require(std::size_t nodes) const;

    // The same nodes, arcs and tensors in another order, which require has seen.
    Graph in_order(std::span<const std::int32_t> order) const;

    // The heaviest antichain of the graph in that order.
    Antichain heaviest(std::span<const std::int32_t> order, Stop& stop) const;
};

}  // namespace gapless
