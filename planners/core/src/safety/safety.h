// Multi-stream safety: for a graph with streams, which pairs of tensors may not share bytes.
//
// All four functions return the same relation, with a bit in both rows of every unsafe pair. If
// `stop` throws, they return nothing. Three are algorithms of "Safe optimized static memory
// allocation for parallel deep learning", section 3; the fourth, on clocks, is ours.
#pragma once

#include "model/bit_rows.h"
#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// Algorithm 1: every consumer of one tensor is an ancestor of the producer of the other.
BitRows unsafe_by_ancestors(const Graph& graph, Stop& stop);

// Algorithm 1opt: like Algorithm 1, but tests only the last consumer of each stream. (MaxNodes
// follows the paper's prose: the paper's formula ranges over all nodes of the stream and can be
// empty.)
BitRows unsafe_by_last_ancestors(const Graph& graph, Stop& stop);

// Algorithm 2, which uses Algorithms 3, 4 and 5: decides by the stream graph.
BitRows unsafe_by_streams(const Graph& graph, Stop& stop);

// Our algorithm: a clock for each node, and a sweep of each stream. See the Note in
// safety_clocks.cpp.
BitRows unsafe_by_clocks(const Graph& graph, Stop& stop);

}  // namespace gapless
