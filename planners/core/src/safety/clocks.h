// Vector clocks: how far each stream must have run before a node may start.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// For each node and stream: the largest position of an ancestor of the node in that stream, or 0 if
// there is none. A node is not its own ancestor. (The paper's MaxAncId, for every stream.)
class Clocks {
  public:
    Clocks(const Graph& graph, Stop& stop);

    std::int32_t at(std::int32_t node, std::int32_t stream) const {
        return clock_[static_cast<std::size_t>(node) * streams_ + stream];
    }
    // Returns true if a directed path of at least one arc leads from `ancestor` to `node`.
    bool precedes(const Graph& graph, std::int32_t ancestor, std::int32_t node) const {
        return graph.position(ancestor) <= at(node, graph.stream(ancestor));
    }

  private:
    std::size_t streams_;
    std::vector<std::int32_t> clock_;
};

}  // namespace gapless
