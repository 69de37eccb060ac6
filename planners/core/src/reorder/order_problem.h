// The facts by which orders of nodes are judged: arcs, and the tensors that each node makes and
// reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stop.h"

namespace gapless {

struct CompressedRows {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> entries;

    std::span<const std::int32_t> row(std::int32_t r) const {
        return {entries.data() + offsets[r], static_cast<std::size_t>(offsets[r + 1] - offsets[r])};
    }
};

// Note [What an order costs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. In a problem with a graph, data arcs and control arcs say which nodes must wait for
// others. That the nodes of one stream run one after the other is a fact about the given order, not
// a constraint. So every order is allowed in which all arcs lead forwards, and the order decides
// the lifetimes.
//
// Approach. A node that runs needs all live tensors and all tensors that it makes. A tensor with
// readers other than its producer is alive from its producer to the last reader in the order. A
// tensor without such a reader dies when its producer ends. The step of a node is the bytes alive
// before it plus the bytes that it makes. After the node, the tensors that others read are added to
// the live bytes, and the tensors whose last reader it is are removed. The largest step is the
// lifetime bound of the problem in that order.
//
// The bytes alive between two nodes depend on the set of nodes that have run, not on their order.
// This makes a search over sets exact. It also limits the cost of a move to the nodes that it
// crosses.
class OrderProblem {
  public:
    // Nodes must be numbered so that every arc leads to a larger number. Throws std::out_of_range
    // if a node does not exist, std::invalid_argument if columns do not fit together or an arc
    // leads backwards, and std::overflow_error if the sizes sum to more bytes than any problem may
    // have.
    OrderProblem(std::int64_t nodes, std::vector<std::int32_t> producer,
                 std::vector<std::int64_t> consumer_offsets, std::vector<std::int32_t> consumers,
                 std::span<const std::int32_t> control_pairs, std::vector<std::int64_t> size);

    std::int32_t node_count() const { return static_cast<std::int32_t>(made_.size()); }
    std::int32_t tensor_count() const { return static_cast<std::int32_t>(size_.size()); }

    std::span<const std::int32_t> successors(std::int32_t v) const { return successors_.row(v); }
    std::span<const std::int32_t> predecessors(std::int32_t v) const {
        return predecessors_.row(v);
    }
    // Bytes that a node makes; and the part of them that other nodes read.
    std::int64_t made(std::int32_t v) const { return made_[v]; }
    std::int64_t kept(std::int32_t v) const { return kept_[v]; }
    // Tensors of other nodes that a node reads, each once.
    std::span<const std::int32_t> reads(std::int32_t v) const { return reads_.row(v); }
    // Nodes other than its producer that read a tensor, each once.
    std::span<const std::int32_t> readers(std::int32_t t) const { return readers_.row(t); }
    std::int32_t producer(std::int32_t t) const { return producer_[t]; }
    std::int64_t size(std::int32_t t) const { return size_[t]; }

    // Throws std::invalid_argument unless the order names every node once and every arc leads
    // forwards.
    void require_order(std::span<const std::int32_t> order) const;

    // Returns the largest step of an order.
    std::int64_t peak(std::span<const std::int32_t> order) const;

    // Returns a lower bound on the peak of every order; see the Note in order_bound.cpp.
    std::int64_t forced_bytes(Stop& stop) const;

  private:
    void join_arcs(std::span<const std::int32_t> control_pairs);

    std::vector<std::int32_t> producer_;
    std::vector<std::int64_t> size_, made_, kept_;
    CompressedRows successors_, predecessors_, reads_, readers_;
};

}  // namespace gapless
