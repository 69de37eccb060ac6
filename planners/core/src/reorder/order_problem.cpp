#include "reorder/order_problem.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

// Builds compressed rows from sorted pairs (row, entry).
CompressedRows to_rows(std::int32_t rows, const std::vector<Pair>& pairs) {
    CompressedRows made;
    made.offsets.assign(static_cast<std::size_t>(rows) + 1, 0);
    made.entries.reserve(pairs.size());
    for (const auto& [row, entry] : pairs) {
        ++made.offsets[row + 1];
        made.entries.push_back(entry);
    }
    for (std::int32_t r = 0; r < rows; ++r) made.offsets[r + 1] += made.offsets[r];
    return made;
}

CompressedRows to_turned_rows(std::int32_t rows, std::vector<Pair> pairs) {
    for (auto& [row, entry] : pairs) std::swap(row, entry);
    std::sort(pairs.begin(), pairs.end());
    return to_rows(rows, pairs);
}

}  // namespace

OrderProblem::OrderProblem(std::int64_t nodes, std::vector<std::int32_t> producer,
                           std::vector<std::int64_t> consumer_offsets,
                           std::vector<std::int32_t> consumers,
                           std::span<const std::int32_t> control_pairs,
                           std::vector<std::int64_t> size)
    : producer_(std::move(producer)), size_(std::move(size)) {
    if (nodes < 0) throw std::invalid_argument("field nodes: a count is needed, found one below 0");
    require_count("nodes", static_cast<std::size_t>(nodes));
    require_count("producer", producer_.size());
    require_count("consumers", consumers.size());
    require_count("control", control_pairs.size());
    require_length("size", size_.size(), "tensor", producer_.size());
    require_length("consumer_offsets", consumer_offsets.size(), "tensor, and one more,",
                   producer_.size() + 1);
    require_offsets("consumer_offsets", consumer_offsets, consumers.size(), 0);
    require_indices("producer", producer_, "nodes", nodes);
    require_indices("consumers", consumers, "nodes", nodes);
    require_indices("control", control_pairs, "nodes", nodes);
    require_total("size", size_);

    made_.assign(static_cast<std::size_t>(nodes), 0);
    kept_.assign(static_cast<std::size_t>(nodes), 0);
    std::vector<Pair> read_by;
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        const std::size_t before = read_by.size();
        for (std::int64_t c = consumer_offsets[t]; c < consumer_offsets[t + 1]; ++c) {
            if (consumers[c] != producer_[t]) read_by.emplace_back(t, consumers[c]);
        }
        made_[producer_[t]] += size_[t];
        if (read_by.size() > before) kept_[producer_[t]] += size_[t];
    }
    std::sort(read_by.begin(), read_by.end());
    read_by.erase(std::unique(read_by.begin(), read_by.end()), read_by.end());
    readers_ = to_rows(tensor_count(), read_by);
    reads_ = to_turned_rows(node_count(), std::move(read_by));
    join_arcs(control_pairs);
}

void OrderProblem::join_arcs(std::span<const std::int32_t> control_pairs) {
    std::vector<Pair> arcs;
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        for (const std::int32_t reader : readers(t)) arcs.emplace_back(producer_[t], reader);
    }
    for (std::size_t p = 0; p + 1 < control_pairs.size(); p += 2) {
        arcs.emplace_back(control_pairs[p], control_pairs[p + 1]);
    }
    for (const auto& [u, v] : arcs) {
        if (u < v) continue;
        throw std::invalid_argument("arcs: each leads to a later node, found " + std::to_string(u) +
                                    " -> " + std::to_string(v));
    }
    std::sort(arcs.begin(), arcs.end());
    arcs.erase(std::unique(arcs.begin(), arcs.end()), arcs.end());
    successors_ = to_rows(node_count(), arcs);
    predecessors_ = to_turned_rows(node_count(), std::move(arcs));
}

void OrderProblem::require_order(std::span<const std::int32_t> order) const {
    require_length("order", order.size(), "node", made_.size());
    require_indices("order", order, "nodes", node_count());
    std::vector<std::uint8_t> ran(made_.size(), 0);
    for (const std::int32_t v : order) {
        for (const std::int32_t u : predecessors(v)) {
            if (!ran[u]) {
                throw std::invalid_argument("field order: node " + std::to_string(u) +
                                            " comes before node " + std::to_string(v) +
                                            ", found it after");
            }
        }
        if (std::exchange(ran[v], 1)) {
            throw std::invalid_argument("field order: every node comes once, found node " +
                                        std::to_string(v) + " twice");
        }
    }
}

std::int64_t OrderProblem::peak(std::span<const std::int32_t> order) const {
    std::vector<std::int32_t> unread(size_.size());
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        unread[t] = static_cast<std::int32_t>(readers(t).size());
    }
    std::int64_t alive = 0;
    std::int64_t largest = 0;
    for (const std::int32_t v : order) {
        largest = std::max(largest, alive + made_[v]);
        alive += kept_[v];
        for (const std::int32_t t : reads(v)) {
            if (--unread[t] == 0) alive -= size_[t];
        }
    }
    return largest;
}

}  // namespace gapless
