#include "budget/step.h"

#include <algorithm>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

// Groups the entries 0, 1, ... by their row; the entries of a row stay in order.
CompressedRows group(std::span<const std::int32_t> row_of, std::size_t rows) {
    CompressedRows grouped;
    grouped.offsets.assign(rows + 1, 0);
    for (const std::int32_t row : row_of) ++grouped.offsets[row + 1];
    for (std::size_t r = 0; r < rows; ++r) grouped.offsets[r + 1] += grouped.offsets[r];
    grouped.entries.resize(row_of.size());
    std::vector<std::int64_t> next(grouped.offsets.begin(), grouped.offsets.end() - 1);
    for (std::size_t entry = 0; entry < row_of.size(); ++entry) {
        grouped.entries[next[row_of[entry]]++] = static_cast<std::int32_t>(entry);
    }
    return grouped;
}

}  // namespace

Step::Step(std::int64_t nodes, StepColumns columns) : columns_(std::move(columns)) {
    require_count("nodes", static_cast<std::size_t>(nodes));
    const std::size_t tensors = columns_.size.size();
    require_length("producer", columns_.producer.size(), "tensor", tensors);
    require_length("consumer_offsets", columns_.consumer_offsets.size(), "tensor and one more",
                   tensors + 1);
    require_length("unit", columns_.unit.size(), "node", static_cast<std::size_t>(nodes));
    require_indices("producer", columns_.producer, "nodes", nodes);
    require_indices("consumers", columns_.consumers, "nodes", nodes);
    require_offsets("consumer_offsets", columns_.consumer_offsets, columns_.consumers.size(), 0);
    require_total("size", columns_.size);
    require_count("seconds", columns_.seconds.size());
    require_indices("unit", columns_.unit, "units",
                    static_cast<std::int64_t>(columns_.seconds.size()));
    if (columns_.first_late_node < 0 || columns_.first_late_node > nodes) {
        refuse("first_late_node", 0, "0 to the number of nodes is needed",
               columns_.first_late_node);
    }
    makes_ = group(columns_.producer, static_cast<std::size_t>(nodes));
    nodes_ = group(columns_.unit, columns_.seconds.size());
    std::vector<std::int32_t> tensor_of(columns_.consumers.size());
    for (std::size_t t = 0; t < tensors; ++t) {
        for (auto c = columns_.consumer_offsets[t]; c < columns_.consumer_offsets[t + 1]; ++c) {
            tensor_of[c] = static_cast<std::int32_t>(t);
        }
    }
    reads_ = group(columns_.consumers, static_cast<std::size_t>(nodes));
    for (std::int32_t& entry : reads_.entries) entry = tensor_of[entry];
    for (std::int32_t u = 0; u < unit_count(); ++u) {
        const std::size_t first = inputs_.entries.size();
        for (const std::int32_t v : nodes_.row(u)) {
            for (const std::int32_t t : reads_.row(v)) {
                if (columns_.unit[columns_.producer[t]] != u) inputs_.entries.push_back(t);
            }
        }
        const auto begin = inputs_.entries.begin() + static_cast<std::ptrdiff_t>(first);
        std::sort(begin, inputs_.entries.end());
        inputs_.entries.erase(std::unique(begin, inputs_.entries.end()), inputs_.entries.end());
        inputs_.offsets.push_back(static_cast<std::int64_t>(inputs_.entries.size()));
    }
}

void Step::require_flags(std::span<const std::uint8_t> repeated) const {
    require_length("repeated", repeated.size(), "unit", columns_.seconds.size());
    for (std::size_t u = 0; u < repeated.size(); ++u) {
        if (repeated[u] && !is_repeatable(static_cast<std::int32_t>(u))) {
            refuse("repeated", u, "a unit that may run again is needed",
                   static_cast<std::int64_t>(u));
        }
    }
}

void Step::require_sequence(std::span<const std::int32_t> sequence) const {
    require_indices("sequence", sequence, "nodes", node_count());
}

std::vector<std::int32_t> Step::late_sequence(std::span<const std::uint8_t> repeated,
                                              double& seconds) const {
    std::vector<std::int32_t> sequence;
    sequence.reserve(columns_.unit.size() * 2);
    // A unit is asked for when it is first put on the stack, and runs when its inputs are there.
    std::vector<std::uint8_t> asked(columns_.seconds.size(), 0);
    std::vector<std::pair<std::int32_t, std::int64_t>> stack;
    const auto ask = [&](std::int32_t tensor) {
        const std::int32_t u = columns_.unit[columns_.producer[tensor]];
        if (!repeated[u] || asked[u]) return;
        asked[u] = 1;
        stack.emplace_back(u, inputs_.offsets[u]);
    };
    for (std::int32_t v = 0; v < node_count(); ++v) {
        if (v >= columns_.first_late_node) {
            for (const std::int32_t read : reads_.row(v)) {
                ask(read);
                while (!stack.empty()) {
                    auto& [u, next] = stack.back();
                    if (next < inputs_.offsets[u + 1]) {
                        ask(inputs_.entries[next++]);
                        continue;
                    }
                    for (const std::int32_t node : nodes_.row(u)) sequence.push_back(node);
                    seconds += columns_.seconds[u];
                    stack.pop_back();
                }
            }
        }
        sequence.push_back(v);
    }
    return sequence;
}

void Step::live_into(std::span<const std::int32_t> sequence,
                     std::vector<std::int64_t>& live) const {
    live.assign(sequence.size() + 1, 0);
    // Where the latest copy of each tensor was made, and where it was last used.
    std::vector<std::int32_t> born(columns_.size.size(), -1), used(columns_.size.size(), -1);
    const auto bury = [&](std::int32_t t) {
        if (born[t] < 0) return;
        live[born[t]] += columns_.size[t];
        live[used[t] + 1] -= columns_.size[t];
    };
    for (std::size_t p = 0; p < sequence.size(); ++p) {
        const auto at = static_cast<std::int32_t>(p);
        for (const std::int32_t t : makes_.row(sequence[p])) {
            bury(t);
            born[t] = used[t] = at;
        }
        for (const std::int32_t t : reads_.row(sequence[p])) used[t] = at;
    }
    for (std::int32_t t = 0; t < tensor_count(); ++t) bury(t);
    for (std::size_t p = 1; p < live.size(); ++p) live[p] += live[p - 1];
    live.pop_back();
}

std::vector<std::int64_t> Step::live_bytes(std::span<const std::int32_t> sequence) const {
    std::vector<std::int64_t> live;
    live_into(sequence, live);
    return live;
}

SequenceMemory Step::memory(std::span<const std::int32_t> sequence, std::int64_t limit) const {
    std::vector<std::int64_t> live;
    live_into(sequence, live);
    SequenceMemory found;
    double over = 0;
    for (const std::int64_t bytes : live) {
        found.peak = std::max(found.peak, bytes);
        if (bytes > limit) over += static_cast<double>(bytes - limit);
    }
    found.excess = over / static_cast<double>(std::max<std::int64_t>(limit, 1));
    return found;
}

}  // namespace gapless
