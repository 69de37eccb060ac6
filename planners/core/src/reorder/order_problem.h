// What an order of nodes is judged by: which node waits for which, and what each makes and reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stop.h"

namespace gapless {

// Rows of numbers, one after the other.
struct CompressedRows {
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> entries;

    std::span<const std::int32_t> row(std::int32_t r) const {
        return {entries.data() + offsets[r], static_cast<std::size_t>(offsets[r + 1] - offsets[r])};
    }
};

// Note [What an order costs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Of a problem with a graph, arcs of data and control say what has to wait for what;
// that nodes of one stream run one after the other says in which order they do, and not that they
// have to. So the order is free as long as every arc leads forwards, and it decides lifetimes.
//
// Approach. A node that runs needs what is alive, and all that it makes. A tensor that another node
// reads is alive from its producer to the last of these in the order. A tensor that nobody else
// reads is gone when its producer ends. So a node's step is: bytes alive before it, and the bytes
// that it makes; and after it come those it makes for others, and go those that it is the last to
// read. The largest step is the lifetime bound of the problem in that order.
//
// Which bytes are alive between two nodes depends on the set of nodes that have run, never on their
// order: this is what makes a search over sets exact, and a move cost no more than the nodes that
// it moves across.
class OrderProblem {
  public:
    // Nodes are numbered in an order in which every arc leads forwards. Throws std::out_of_range
    // for a node that does not exist, std::invalid_argument where columns do not fit together or an
    // arc leads backwards, std::overflow_error for more bytes than any problem has.
    OrderProblem(std::int64_t nodes, std::vector<std::int32_t> producer,
                 std::vector<std::int64_t> consumer_offsets, std::vector<std::int32_t> consumers,
                 std::span<const std::int32_t> control_pairs, std::vector<std::int64_t> size);

    std::int32_t node_count() const { return static_cast<std::int32_t>(made_.size()); }
    std::int32_t tensor_count() const { return static_cast<std::int32_t>(size_.size()); }

    std::span<const std::int32_t> successors(std::int32_t v) const { return successors_.row(v); }
    std::span<const std::int32_t> predecessors(std::int32_t v) const {
        return predecessors_.row(v);
    }
    // Bytes that a node makes, and those of them that another node reads.
    std::int64_t made(std::int32_t v) const { return made_[v]; }
    std::int64_t kept(std::int32_t v) const { return kept_[v]; }
    // Tensors of other nodes that a node reads, each once.
    std::span<const std::int32_t> reads(std::int32_t v) const { return reads_.row(v); }
    // Nodes other than its producer that read a tensor, each once.
    std::span<const std::int32_t> readers(std::int32_t t) const { return readers_.row(t); }
    std::int32_t producer(std::int32_t t) const { return producer_[t]; }
    std::int64_t size(std::int32_t t) const { return size_[t]; }

    // Throws std::invalid_argument unless it names every node once and every arc leads forwards.
    void require_order(std::span<const std::int32_t> order) const;

    // The largest step of an order.
    std::int64_t peak(std::span<const std::int32_t> order) const;

    // Bytes that no order stays below; see the Note in order_bound.cpp.
    std::int64_t forced_bytes(Stop& stop) const;

  private:
    void join_arcs(std::span<const std::int32_t> control_pairs);

    std::vector<std::int32_t> producer_;
    std::vector<std::int64_t> size_, made_, kept_;
    CompressedRows successors_, predecessors_, reads_, readers_;
};

}  // namespace gapless
