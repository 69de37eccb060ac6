// The referee's fast twin: finds two unsafe tensors that share a byte.
//
// It shares no code with the planners: lifetimes are swept over raw steps, graphs are decided by
// what descends from each node. The slow referee, planners/referee/naive.py, is what it is tested
// against.
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

// A plan as the check reads it: one entry a tensor. Throws std::invalid_argument for less than no
// bytes, std::overflow_error for an end that is no number.
struct PlacedTensors {
    PlacedTensors(std::span<const std::int64_t> offset_of_each,
                  std::span<const std::int64_t> size_of_each);

    std::span<const std::int64_t> offset;
    std::span<const std::int64_t> size;
};

std::optional<TensorPair> find_overlap_in_time(PlacedTensors plan,
                                               std::span<const Segment> segments, Stop& stop);

// A graph as arrays; nodes in topological order, arcs given as pairs (from, to).
struct ArcList {
    std::span<const std::int32_t> stream;
    std::span<const std::int32_t> producer;
    std::span<const std::int64_t> consumer_offsets;
    std::span<const std::int32_t> consumers;
    std::span<const std::int32_t> control;
};

// Which tensors a graph lets share bytes, kept between the plans that are checked against it.
//
// Of each tensor it holds the nodes that every one of its users precedes. They are the last ones of
// each stream, for a stream runs in order: so either a bit a node or the first one a stream is kept
// of them, whichever is less.
class DescendantSafety {
  public:
    // Throws std::out_of_range for a node that does not exist, std::invalid_argument where columns
    // do not fit together or an arc leads backwards, std::length_error for more than
    // require_table takes.
    DescendantSafety(const ArcList& graph, Stop& stop);

    // Throws std::invalid_argument unless the plan has the graph's tensors.
    std::optional<TensorPair> find_overlap(PlacedTensors plan, Stop& stop) const;

  private:
    using Successors = std::vector<std::vector<std::int32_t>>;

    void collect_bits(const ArcList& graph, const Successors& successors, Stop& stop);
    void collect_firsts(const ArcList& graph, const Successors& successors, Stop& stop);

    bool unsafe(std::int32_t a, std::int32_t b) const {
        return !born_after(a, producer_[b]) && !born_after(b, producer_[a]);
    }
    // Whether every user of a tensor precedes a node.
    bool born_after(std::int32_t tensor, std::int32_t node) const {
        if (!first_.empty()) return first_[first_at(tensor, stream_[node])] <= node;
        return (after_[static_cast<std::size_t>(tensor) * words_ + node / 64] >> (node % 64)) & 1U;
    }
    std::size_t first_at(std::size_t row, std::int32_t stream) const {
        return row * streams_ + static_cast<std::size_t>(stream);
    }

    std::vector<std::int32_t> stream_, producer_;
    std::size_t streams_ = 0, words_;
    // By tensor: bits by node, or nodes by stream; only one of the two.
    std::vector<std::uint64_t> after_;
    std::vector<std::int32_t> first_;
};

}  // namespace gapless
