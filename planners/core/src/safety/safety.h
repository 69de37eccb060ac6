// Multi-stream safety: for a graph with streams, which pairs of tensors may not share bytes.
//
// All four functions return the same relation: a bit for every unsafe pair, in both rows. They stop
// where told to, with nothing to return. They are
// the algorithms of "Safe optimized static memory allocation for parallel deep learning",
// section 3, and our own on clocks.
#pragma once

#include "model/bit_rows.h"
#include "model/graph.h"
#include "model/stop.h"

namespace gapless {

// Algorithm 1: every consumer of one tensor is an ancestor of the producer of the other.
BitRows unsafe_by_ancestors(const Graph& graph, Stop& stop);

// Algorithm 1opt: the same over the last consumer in each stream alone (MaxNodes, read as the
// prose has it: the formula ranges over all nodes of the stream and can be empty).
BitRows unsafe_by_last_ancestors(const Graph& graph, Stop& stop);

// Algorithm 2, with 3, 4 and 5: by the stream graph.
BitRows unsafe_by_streams(const Graph& graph, Stop& stop);

// Ours: a clock per node and a sweep per stream. See the Note in safety_clocks.cpp.
BitRows unsafe_by_clocks(const Graph& graph, Stop& stop);

}  // namespace gapless
