#include "reorder/graph_columns.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/require.h"

namespace gapless {

void GraphColumns::require(std::size_t nodes) const {
    require_length("stream", stream.size(), "node", nodes);
    require_length("size", size.size(), "tensor", producer.size());
    require_length("consumer_offsets", consumer_offsets.size(), "tensor, and one more,",
                   producer.size() + 1);
    const auto count = static_cast<std::int64_t>(nodes);
    require_indices("producer", producer, "nodes", count);
    require_indices("consumers", consumers, "nodes", count);
    require_indices("control", control_pairs, "nodes", count);
}

Graph GraphColumns::in_order(std::span<const std::int32_t> order) const {
    std::vector<std::int32_t> position(order.size());
    for (std::size_t p = 0; p < order.size(); ++p)
        position[order[p]] = static_cast<std::int32_t>(p);
    const auto moved = [&](const std::vector<std::int32_t>& nodes) {
        std::vector<std::int32_t> renumbered(nodes.size());
        std::transform(nodes.begin(), nodes.end(), renumbered.begin(),
                       [&](std::int32_t v) { return position[v]; });
        return renumbered;
    };
    std::vector<std::int32_t> streams;
    streams.reserve(order.size());
    for (const std::int32_t v : order) streams.push_back(stream[v]);
    return {std::move(streams), moved(producer), consumer_offsets, moved(consumers),
            moved(control_pairs)};
}

Antichain GraphColumns::heaviest(std::span<const std::int32_t> order, Stop& stop) const {
    AntichainSearch search(std::make_shared<const Graph>(in_order(order)), size);
    return search.run(stop);
}

}  // namespace gapless
