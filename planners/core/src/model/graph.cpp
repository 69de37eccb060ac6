#include "model/graph.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

Graph::Graph(std::vector<std::int32_t> stream, std::vector<std::int32_t> producer,
             std::vector<std::int64_t> consumer_offsets, std::vector<std::int32_t> consumers,
             std::span<const std::int32_t> control_pairs)
    : stream_(std::move(stream)), producer_(std::move(producer)) {
    require_count("stream", stream_.size());
    require_count("producer", producer_.size());
    require_count("consumers", consumers.size());
    require_count("control", control_pairs.size());
    require_length("consumer_offsets", consumer_offsets.size(), "tensor, and one more,",
                   producer_.size() + 1);
    require_offsets("consumer_offsets", consumer_offsets, consumers.size(), 0);
    require_indices("producer", producer_, "nodes", node_count());
    require_indices("consumers", consumers, "nodes", node_count());
    require_indices("control", control_pairs, "nodes", node_count());
    // Streams are numbered densely, so every stream number is below the number of nodes.
    require_indices("stream", stream_, "streams", node_count());
    number_positions();
    collect_users(consumer_offsets, consumers);
    collect_predecessors(control_pairs);
}

void Graph::number_positions() {
    stream_count_ = stream_.empty() ? 0 : *std::max_element(stream_.begin(), stream_.end()) + 1;
    std::vector<std::int32_t> filled(stream_count_, 0);
    position_.reserve(stream_.size());
    for (const std::int32_t s : stream_) position_.push_back(++filled[s]);
}

void Graph::collect_users(const std::vector<std::int64_t>& offsets,
                          const std::vector<std::int32_t>& consumers) {
    user_offsets_.push_back(0);
    last_user_offsets_.push_back(0);
    std::vector<std::int32_t> last;
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        const std::size_t first_user = users_.size();
        users_.insert(users_.end(), consumers.begin() + offsets[t],
                      consumers.begin() + offsets[t + 1]);
        if (users_.size() == first_user) users_.push_back(producer_[t]);
        last.assign(users_.begin() + static_cast<std::ptrdiff_t>(first_user), users_.end());
        for (const std::int32_t user : last) {
            if (user >= producer_[t]) continue;
            throw std::invalid_argument("field consumers, tensor " + std::to_string(t) +
                                        ": it is read before its producer, node " +
                                        std::to_string(producer_[t]) + ", makes it, found node " +
                                        std::to_string(user));
        }
        std::sort(last.begin(), last.end(), [&](std::int32_t a, std::int32_t b) {
            return std::pair(stream_[a], -position_[a]) < std::pair(stream_[b], -position_[b]);
        });
        last.erase(std::unique(last.begin(), last.end(),
                               [&](auto a, auto b) { return stream_[a] == stream_[b]; }),
                   last.end());
        last_users_.insert(last_users_.end(), last.begin(), last.end());
        user_offsets_.push_back(static_cast<std::int64_t>(users_.size()));
        last_user_offsets_.push_back(static_cast<std::int64_t>(last_users_.size()));
    }
}

void Graph::collect_predecessors(std::span<const std::int32_t> control_pairs) {
    std::vector<std::pair<std::int32_t, std::int32_t>> arcs;  // (target, source)
    std::vector<std::int32_t> last_in_stream(stream_count_, -1);
    for (std::int32_t v = 0; v < node_count(); ++v) {
        const std::int32_t previous = std::exchange(last_in_stream[stream_[v]], v);
        if (previous >= 0) arcs.emplace_back(v, previous);
    }
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        for (const std::int32_t user : users(t)) {
            if (stream_[user] != stream_[producer_[t]]) arcs.emplace_back(user, producer_[t]);
        }
    }
    for (std::size_t p = 0; p + 1 < control_pairs.size(); p += 2) {
        if (control_pairs[p] >= control_pairs[p + 1]) {
            refuse("control", p / 2,
                   "an arc leads from a node to a later one, above " +
                       std::to_string(control_pairs[p]),
                   control_pairs[p + 1]);
        }
        arcs.emplace_back(control_pairs[p + 1], control_pairs[p]);
    }
    std::sort(arcs.begin(), arcs.end());
    arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
    predecessor_offsets_.assign(static_cast<std::size_t>(node_count()) + 1, 0);
    for (const auto& [target, source] : arcs) {
        ++predecessor_offsets_[target + 1];
        predecessors_.push_back(source);
    }
    for (std::int32_t v = 0; v < node_count(); ++v) {
        predecessor_offsets_[v + 1] += predecessor_offsets_[v];
    }
}

}  // namespace gapless
