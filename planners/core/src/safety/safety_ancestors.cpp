// Algorithms 1 and 1opt of the paper, with the bitset traversal of its appendix B.
#include "safety/safety.h"

namespace gapless {

namespace {

// AncNodes: row n holds the nodes with a directed path of at least one arc to n. A node is never
// its own ancestor, even if it reads its own workspace.
BitRows ancestor_nodes(const Graph& graph, Stop& stop) {
    BitRows ancestors(graph.node_count(), graph.node_count());
    for (std::int32_t v = 0; v < graph.node_count(); ++v) {
        stop.poll();
        std::uint64_t* row = ancestors.row(v);
        for (const std::int32_t u : graph.predecessors(v)) {
            const std::uint64_t* before = ancestors.row(u);
            for (std::size_t w = 0; w < ancestors.words(); ++w) row[w] |= before[w];
            ancestors.set(v, u);
        }
    }
    return ancestors;
}

bool all_ancestors(const BitRows& ancestors, std::span<const std::int32_t> nodes,
                   std::int32_t producer) {
    for (const std::int32_t node : nodes) {
        if (!ancestors.test(producer, node)) return false;
    }
    return true;
}

template <class Destinations>
BitRows unsafe_pairs(const Graph& graph, Destinations destinations, Stop& stop) {
    const BitRows ancestors = ancestor_nodes(graph, stop);
    const std::int32_t tensors = graph.tensor_count();
    BitRows relation(tensors, tensors);
    for (std::int32_t a = 0; a < tensors; ++a) {
        stop.poll();
        for (std::int32_t b = a + 1; b < tensors; ++b) {
            if (all_ancestors(ancestors, destinations(a), graph.producer(b)) ||
                all_ancestors(ancestors, destinations(b), graph.producer(a))) {
                relation.set(a, b);
            }
        }
    }
    unsafe_from_safe(relation, stop);
    return relation;
}

}  // namespace

BitRows unsafe_by_ancestors(const Graph& graph, Stop& stop) {
    return unsafe_pairs(graph, [&](std::int32_t t) { return graph.users(t); }, stop);
}

BitRows unsafe_by_last_ancestors(const Graph& graph, Stop& stop) {
    return unsafe_pairs(graph, [&](std::int32_t t) { return graph.last_users(t); }, stop);
}

}  // namespace gapless
