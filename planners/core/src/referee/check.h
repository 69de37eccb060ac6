// The referee's fast twin: finds two unsafe tensors that share a byte.
//
// The check shares no code with the planners. Lifetimes are checked by a sweep over raw steps.
// Graphs are checked by the descendants of each node. Tests compare it with the slow referee,
// planners/referee/naive.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/sections.h"
#include "model/stop.h"

namespace gapless {

using TensorPair = std::pair<std::int32_t, std::int32_t>;

// A plan as the check reads it, with one entry for each tensor. Throws std::invalid_argument for a
// negative offset or size, and std::overflow_error if offset + size exceeds an int64.
struct PlacedTensors {
    PlacedTensors(std::span<const std::int64_t> offset_of_each,
                  std::span<const std::int64_t> size_of_each);

    std::span<const std::int64_t> offset;
    std::span<const std::int64_t> size;
};

std::optional<TensorPair> find_overlap_in_time(PlacedTensors plan,
                                               std::span<const Segment> segments, Stop& stop);

// A graph as arrays. Nodes are in topological order; control arcs are given as pairs (from, to).
struct ArcList {
    std::span<const std::int32_t> stream;
    std::span<const std::int32_t> producer;
    std::span<const std::int64_t> consumer_offsets;
    std::span<const std::int32_t> consumers;
    std::span<const std::int32_t> control;
};

// Decides which tensors of a graph may share bytes. One object serves many plans of the same graph.
//
// For each tensor, the object holds the nodes that all users of the tensor precede. Since a stream
// runs in order, these nodes are a suffix of each stream. The object stores either one bit for each
// node or the first such node of each stream, whichever takes less memory.
class DescendantSafety {
  public:
    // Throws std::out_of_range if a node does not exist, std::invalid_argument if the columns do
    // not fit together or an arc leads backwards, and std::length_error if the table is larger than
    // require_table allows.
    DescendantSafety(const ArcList& graph, Stop& stop);

    // Throws std::invalid_argument if the plan's number of tensors differs from the graph's.
    std::optional<TensorPair> find_overlap(PlacedTensors plan, Stop& stop) const;

  private:
    using Successors = std::vector<std::vector<std::int32_t>>;

    void collect_bits(const ArcList& graph, const Successors& successors, Stop& stop);
    void collect_firsts(const ArcList& graph, const Successors& successors, Stop& stop);

    bool unsafe(std::int32_t a, std::int32_t b) const {
        return !born_after(a, producer_[b]) && !born_after(b, producer_[a]);
    }
    // Returns true if every user of a tensor precedes a node.
    bool born_after(std::int32_t tensor, std::int32_t node) const {
        if (!first_.empty()) return first_[first_at(tensor, stream_[node])] <= node;
        return (after_[static_cast<std::size_t>(tensor) * words_ + node / 64] >> (node % 64)) & 1U;
    }
    std::size_t first_at(std::size_t row, std::int32_t stream) const {
        return row * streams_ + static_cast<std::size_t>(stream);
    }

    std::vector<std::int32_t> stream_, producer_;
    std::size_t streams_ = 0, words_;
    // One row for each tensor: bits by node, or first nodes by stream. Only one of the two is
    // filled.
    std::vector<std::uint64_t> after_;
    std::vector<std::int32_t> first_;
};

}  // namespace gapless
