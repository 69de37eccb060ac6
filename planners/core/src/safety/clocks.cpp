#include "safety/clocks.h"

#include <algorithm>

#include "model/require.h"

namespace gapless {

Clocks::Clocks(const Graph& graph, Stop& stop) : streams_(graph.stream_count()) {
    require_table("clocks of nodes", graph.node_count(), graph.stream_count(), 32);
    clock_.assign(graph.node_count() * streams_, 0);
    for (std::int32_t v = 0; v < graph.node_count(); ++v) {
        stop.poll();
        std::int32_t* clock = clock_.data() + static_cast<std::size_t>(v) * streams_;
        for (const std::int32_t u : graph.predecessors(v)) {
            const std::int32_t* before = clock_.data() + static_cast<std::size_t>(u) * streams_;
            for (std::size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], before[s]);
            std::int32_t& own = clock[graph.stream(u)];
            own = std::max(own, graph.position(u));
        }
    }
}

}  // namespace gapless
