// The computation graph as the safety algorithms read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gapless {

// Nodes are listed in global topological order, on streams 0 .. stream_count - 1. Arcs are stored
// as compressed rows. Within a stream every node waits for the node before it, with or without an
// arc.
class Graph {
  public:
    // Throws std::out_of_range if a column names a node that does not exist, and
    // std::invalid_argument if the columns do not fit together or an arc leads backwards.
    Graph(std::vector<std::int32_t> stream, std::vector<std::int32_t> producer,
          std::vector<std::int64_t> consumer_offsets, std::vector<std::int32_t> consumers,
          std::span<const std::int32_t> control_pairs);

    std::int32_t node_count() const { return static_cast<std::int32_t>(stream_.size()); }
    std::int32_t tensor_count() const { return static_cast<std::int32_t>(producer_.size()); }
    std::int32_t stream_count() const { return stream_count_; }

    std::int32_t stream(std::int32_t node) const { return stream_[node]; }
    // Position of a node within its stream, counted from 1 (the paper's StartTime).
    std::int32_t position(std::int32_t node) const { return position_[node]; }
    std::int32_t producer(std::int32_t tensor) const { return producer_[tensor]; }

    // The nodes that must have run before a tensor is dead: its consumers, or its producer if the
    // tensor has no consumer. (An empty set of users would pass the paper's subset test against any
    // tensor, even one that is alive while the producer writes.)
    std::span<const std::int32_t> users(std::int32_t tensor) const {
        const std::int64_t begin = user_offsets_[tensor];
        return {users_.data() + begin, static_cast<std::size_t>(user_offsets_[tensor + 1] - begin)};
    }
    // For each stream that uses the tensor, the user with the largest position, by rising stream.
    std::span<const std::int32_t> last_users(std::int32_t tensor) const {
        const std::int64_t begin = last_user_offsets_[tensor];
        return {last_users_.data() + begin,
                static_cast<std::size_t>(last_user_offsets_[tensor + 1] - begin)};
    }
    // Direct predecessors of a node: nodes of other streams, and the node before it in its own
    // stream.
    std::span<const std::int32_t> predecessors(std::int32_t node) const {
        const std::int64_t begin = predecessor_offsets_[node];
        return {predecessors_.data() + begin,
                static_cast<std::size_t>(predecessor_offsets_[node + 1] - begin)};
    }

  private:
    void number_positions();
    void collect_users(const std::vector<std::int64_t>& offsets,
                       const std::vector<std::int32_t>& consumers);
    void collect_predecessors(std::span<const std::int32_t> control_pairs);

    std::int32_t stream_count_ = 0;
    std::vector<std::int32_t> stream_, position_, producer_;
    std::vector<std::int64_t> user_offsets_, last_user_offsets_, predecessor_offsets_;
    std::vector<std::int32_t> users_, last_users_, predecessors_;
};

}  // namespace gapless
