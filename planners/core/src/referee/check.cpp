#include "referee/check.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include "model/require.h"

namespace gapless {

namespace {

TensorPair ordered(std::int32_t a, std::int32_t b) { return {std::min(a, b), std::max(a, b)}; }

void require_arcs(const ArcList& graph) {
    const auto nodes = static_cast<std::int64_t>(graph.stream.size());
    require_count("stream", graph.stream.size());
    require_count("producer", graph.producer.size());
    require_count("consumers", graph.consumers.size());
    require_count("control", graph.control.size());
    require_indices("stream", graph.stream, "streams", nodes);
    require_indices("producer", graph.producer, "nodes", nodes);
    require_indices("consumers", graph.consumers, "nodes", nodes);
    require_indices("control", graph.control, "nodes", nodes);
    require_length("consumer_offsets", graph.consumer_offsets.size(), "tensor, and one more,",
                   graph.producer.size() + 1);
    require_offsets("consumer_offsets", graph.consumer_offsets, graph.consumers.size(), 0);
    // A later pass collects descendants from the last node to the first, so every arc must lead
    // forwards.
    for (std::size_t t = 0; t < graph.producer.size(); ++t) {
        for (std::int64_t c = graph.consumer_offsets[t]; c < graph.consumer_offsets[t + 1]; ++c) {
            if (graph.consumers[c] >= graph.producer[t]) continue;
            refuse("consumers", static_cast<std::size_t>(c),
                   "a reader at or after its producer, node " + std::to_string(graph.producer[t]),
                   graph.consumers[c]);
        }
    }
    for (std::size_t p = 0; p + 1 < graph.control.size(); p += 2) {
        if (graph.control[p] < graph.control[p + 1]) continue;
        refuse("control", p / 2,
               "an arc leads from a node to a later one, above " + std::to_string(graph.control[p]),
               graph.control[p + 1]);
    }
}

}  // namespace

PlacedTensors::PlacedTensors(std::span<const std::int64_t> offset_of_each,
                             std::span<const std::int64_t> size_of_each)
    : offset(offset_of_each), size(size_of_each) {
    require_count("size", size.size());
    require_length("offset", offset.size(), "tensor", size.size());
    require_at_least("offset", offset, 0);
    require_at_least("size", size, 0);
    for (std::size_t t = 0; t < size.size(); ++t) {
        if (offset[t] <= std::numeric_limits<std::int64_t>::max() - size[t]) continue;
        throw std::overflow_error("field offset, entry " + std::to_string(t) +
                                  ": offset + size stays below 2**63, found " +
                                  std::to_string(offset[t]) + " + " + std::to_string(size[t]));
    }
}

std::optional<TensorPair> find_overlap_in_time(PlacedTensors plan,
                                               std::span<const Segment> segments, Stop& stop) {
    struct Event {
        std::int64_t step;
        bool starts;
        std::int32_t tensor;
    };
    std::vector<Event> events;
    events.reserve(2 * segments.size());
    for (const Segment& segment : segments) {
        if (plan.size[segment.tensor] == 0) continue;
        const auto tensor = static_cast<std::int32_t>(segment.tensor);
        events.push_back({segment.begin, true, tensor});
        events.push_back({segment.end, false, tensor});
    }
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return std::tie(a.step, a.starts, a.tensor) < std::tie(b.step, b.starts, b.tensor);
    });
    // Live tensors by offset. While they are disjoint, a new tensor can overlap only its two
    // neighbours.
    std::set<std::pair<std::int64_t, std::int32_t>> live;
    for (const Event& event : events) {
        stop.poll();
        const std::int64_t offset = plan.offset[event.tensor];
        if (!event.starts) {
            live.erase({offset, event.tensor});
            continue;
        }
        const auto above = live.lower_bound({offset, event.tensor});
        if (above != live.end() && above->first < offset + plan.size[event.tensor]) {
            return ordered(event.tensor, above->second);
        }
        if (above != live.begin()) {
            const auto below = std::prev(above);
            if (below->first + plan.size[below->second] > offset) {
                return ordered(event.tensor, below->second);
            }
        }
        live.insert(above, {offset, event.tensor});
    }
    return std::nullopt;
}

DescendantSafety::DescendantSafety(const ArcList& graph, Stop& stop)
    : stream_(graph.stream.begin(), graph.stream.end()),
      producer_(graph.producer.begin(), graph.producer.end()),
      words_((graph.stream.size() + 63) / 64) {
    require_arcs(graph);
    const std::size_t nodes = stream_.size();
    Successors successors(nodes);
    for (const std::int32_t s : stream_) streams_ = std::max<std::size_t>(streams_, s + 1);
    std::vector<std::int32_t> last(streams_, -1);
    for (std::size_t v = 0; v < nodes; ++v) {
        std::int32_t& previous = last[stream_[v]];
        if (previous >= 0) successors[previous].push_back(static_cast<std::int32_t>(v));
        previous = static_cast<std::int32_t>(v);
    }
    for (std::size_t t = 0; t < producer_.size(); ++t) {
        for (std::int64_t c = graph.consumer_offsets[t]; c < graph.consumer_offsets[t + 1]; ++c) {
            if (graph.consumers[c] != producer_[t]) {
                successors[producer_[t]].push_back(graph.consumers[c]);
            }
        }
    }
    for (std::size_t p = 0; p + 1 < graph.control.size(); p += 2) {
        successors[graph.control[p]].push_back(graph.control[p + 1]);
    }
    for (std::vector<std::int32_t>& of_node : successors) {
        std::sort(of_node.begin(), of_node.end());
        of_node.erase(std::unique(of_node.begin(), of_node.end()), of_node.end());
    }
    const auto rows = static_cast<std::int64_t>(nodes + producer_.size());
    if (32 * streams_ < nodes) {
        require_table("first descendants of nodes and tensors", rows,
                      static_cast<std::int64_t>(streams_), 32);
        collect_firsts(graph, successors, stop);
    } else {
        require_table("descendants of nodes and tensors", rows, static_cast<std::int64_t>(nodes),
                      1);
        collect_bits(graph, successors, stop);
    }
}

void DescendantSafety::collect_bits(const ArcList& graph, const Successors& successors,
                                    Stop& stop) {
    std::vector<std::uint64_t> descendants(successors.size() * words_, 0);
    for (std::size_t v = successors.size(); v-- > 0;) {
        stop.poll();
        std::uint64_t* row = descendants.data() + v * words_;
        for (const std::int32_t w : successors[v]) {
            const std::uint64_t* below = descendants.data() + static_cast<std::size_t>(w) * words_;
            for (std::size_t i = 0; i < words_; ++i) row[i] |= below[i];
            row[w / 64] |= std::uint64_t{1} << (w % 64);
        }
    }
    after_.assign(producer_.size() * words_, 0);
    for (std::size_t t = 0; t < producer_.size(); ++t) {
        stop.poll();
        std::uint64_t* row = after_.data() + t * words_;
        const std::uint64_t* of_producer =
            descendants.data() + static_cast<std::size_t>(producer_[t]) * words_;
        std::copy(of_producer, of_producer + words_, row);
        for (std::int64_t c = graph.consumer_offsets[t]; c < graph.consumer_offsets[t + 1]; ++c) {
            const std::uint64_t* of_user =
                descendants.data() + static_cast<std::size_t>(graph.consumers[c]) * words_;
            for (std::size_t i = 0; i < words_; ++i) row[i] &= of_user[i];
        }
    }
}

void DescendantSafety::collect_firsts(const ArcList& graph, const Successors& successors,
                                      Stop& stop) {
    const auto never = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> descendants(successors.size() * streams_, never);
    for (std::size_t v = successors.size(); v-- > 0;) {
        stop.poll();
        std::int32_t* row = descendants.data() + first_at(v, 0);
        for (const std::int32_t w : successors[v]) {
            const std::int32_t* below = descendants.data() + first_at(w, 0);
            for (std::size_t s = 0; s < streams_; ++s) row[s] = std::min(row[s], below[s]);
            row[stream_[w]] = std::min(row[stream_[w]], w);
        }
    }
    first_.resize(producer_.size() * streams_);
    for (std::size_t t = 0; t < producer_.size(); ++t) {
        stop.poll();
        std::int32_t* row = first_.data() + first_at(t, 0);
        const std::int32_t* of_producer = descendants.data() + first_at(producer_[t], 0);
        std::copy(of_producer, of_producer + streams_, row);
        for (std::int64_t c = graph.consumer_offsets[t]; c < graph.consumer_offsets[t + 1]; ++c) {
            const std::int32_t* of_user = descendants.data() + first_at(graph.consumers[c], 0);
            for (std::size_t s = 0; s < streams_; ++s) row[s] = std::max(row[s], of_user[s]);
        }
    }
}

std::optional<TensorPair> DescendantSafety::find_overlap(PlacedTensors plan, Stop& stop) const {
    require_length("size", plan.size.size(), "tensor of the graph", producer_.size());
    std::vector<std::int32_t> by_offset(producer_.size());
    std::iota(by_offset.begin(), by_offset.end(), 0);
    std::erase_if(by_offset, [&](std::int32_t t) { return plan.size[t] == 0; });
    std::sort(by_offset.begin(), by_offset.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair(plan.offset[a], a) < std::pair(plan.offset[b], b);
    });
    std::vector<std::int32_t> open;
    for (const std::int32_t next : by_offset) {
        stop.poll();
        std::erase_if(open, [&](std::int32_t t) {
            return plan.offset[t] + plan.size[t] <= plan.offset[next];
        });
        for (const std::int32_t t : open) {
            if (unsafe(t, next)) return ordered(t, next);
        }
        open.push_back(next);
    }
    return std::nullopt;
}

}  // namespace gapless
