#include "recompute/step.h"

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
    require_length("seconds", columns_.seconds.size(), "node", static_cast<std::size_t>(nodes));
    require_count("repeatable", columns_.repeatable.size());
    require_length("sendable", columns_.sendable.size(), "tensor", tensors);
    require_indices("unit", columns_.unit, "units",
                    static_cast<std::int64_t>(columns_.repeatable.size()));
    if (columns_.first_late_node < 0 || columns_.first_late_node > nodes) {
        refuse("first_late_node", 0, "0 to the number of nodes is needed",
               columns_.first_late_node);
    }
    makes_ = group(columns_.producer, static_cast<std::size_t>(nodes));
    nodes_ = group(columns_.unit, columns_.repeatable.size());
    unit_seconds_.assign(columns_.repeatable.size(), 0);
    for (std::size_t v = 0; v < columns_.unit.size(); ++v) {
        unit_seconds_[columns_.unit[v]] += columns_.seconds[v];
        base_seconds_ += columns_.seconds[v];
    }
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

void Step::require_choice(const Choice& choice) const {
    require_length("repeated", choice.repeated.size(), "unit", columns_.repeatable.size());
    require_length("sent", choice.sent.size(), "tensor", columns_.size.size());
    for (std::size_t u = 0; u < choice.repeated.size(); ++u) {
        if (choice.repeated[u] && !columns_.repeatable[u]) {
            refuse("repeated", u, "0 is needed for a unit that may not run again", 1);
        }
    }
    for (std::size_t t = 0; t < choice.sent.size(); ++t) {
        if (choice.sent[t] && !columns_.sendable[t]) {
            refuse("sent", t, "0 is needed for a tensor that may not be sent away", 1);
        }
    }
}

void Step::require_sequence(std::span<const std::int32_t> sequence) const {
    require_indices("sequence", sequence, "nodes and copies",
                    std::int64_t{node_count()} + 2 * std::int64_t{tensor_count()});
}

std::vector<std::int32_t> Step::late_sequence(const Choice& choice) const {
    return with_copies(with_repeats(choice), choice);
}

std::vector<std::int32_t> Step::with_repeats(const Choice& choice) const {
    std::vector<std::int32_t> sequence;
    sequence.reserve(columns_.unit.size() * 2);
    // A unit is asked for when it is first put on the stack, and runs when its inputs are there.
    // If a node of a unit runs for the first time only later, the unit has not run as a whole yet.
    // Then the first copies of its tensors are read.
    std::vector<std::uint8_t> asked(columns_.repeatable.size(), 0);
    std::vector<std::pair<std::int32_t, std::int64_t>> stack;
    std::int32_t v = 0;
    const auto ask = [&](std::int32_t tensor) {
        const std::int32_t u = columns_.unit[columns_.producer[tensor]];
        if (!choice.repeated[u] || asked[u] || nodes_.row(u).back() >= v) return;
        asked[u] = 1;
        stack.emplace_back(u, inputs_.offsets[u]);
    };
    for (; v < node_count(); ++v) {
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
                    stack.pop_back();
                }
            }
        }
        sequence.push_back(v);
    }
    return sequence;
}

std::vector<std::int32_t> Step::with_copies(std::vector<std::int32_t> nodes,
                                            const Choice& choice) const {
    struct Copy {
        std::int32_t tensor;
        // Places of the last node that makes or changes it, and of the last early and the first
        // late one that uses it.
        std::int32_t ready = -1, last_early = -1, first_late = -1;
        std::size_t send_place = 0, fetch_place = 0;
    };
    std::vector<Copy> copies;
    std::vector<std::int32_t> copy_of(columns_.size.size(), -1);
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        if (!choice.sent[t] || choice.repeated[columns_.unit[columns_.producer[t]]]) continue;
        copy_of[t] = static_cast<std::int32_t>(copies.size());
        copies.push_back({t});
    }
    if (copies.empty()) return nodes;
    std::vector<double> begin(nodes.size() + 1, 0);
    bool is_late = false;
    for (std::size_t p = 0; p < nodes.size(); ++p) {
        const std::int32_t v = nodes[p];
        begin[p + 1] = begin[p] + columns_.seconds[v];
        is_late = is_late || v == columns_.first_late_node || p > static_cast<std::size_t>(v);
        for (const auto& rows : {makes_.row(v), reads_.row(v)}) {
            for (const std::int32_t t : rows) {
                if (copy_of[t] < 0) continue;
                Copy& copy = copies[copy_of[t]];
                if (!is_late) {
                    if (columns_.unit[v] == columns_.unit[columns_.producer[t]]) {
                        copy.ready = static_cast<std::int32_t>(p);
                    }
                    copy.last_early = static_cast<std::int32_t>(p);
                } else if (copy.first_late < 0) {
                    copy.first_late = static_cast<std::int32_t>(p);
                }
            }
        }
    }
    std::erase_if(copies, [](const Copy& c) { return c.first_late < 0 || c.ready < 0; });
    const auto place_from = [&](double when) {
        return static_cast<std::size_t>(std::lower_bound(begin.begin(), begin.end() - 1, when) -
                                        begin.begin());
    };
    std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
        return std::pair(a.last_early, a.tensor) < std::pair(b.last_early, b.tensor);
    });
    double free_at = 0;
    for (Copy& copy : copies) {
        free_at = std::max(free_at, begin[copy.ready + 1]) + copy_seconds(copy.tensor);
        // At the latest in front of the first use, which waits for the copy and its fetch.
        const auto used = static_cast<std::size_t>(copy.last_early) + 1;
        copy.send_place = std::min(std::max(place_from(free_at), used),
                                   static_cast<std::size_t>(copy.first_late));
    }
    std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
        return std::pair(a.first_late, a.tensor) < std::pair(b.first_late, b.tensor);
    });
    double next_begin = begin.back();
    for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
        next_begin = std::min(next_begin, begin[copy->first_late]) - copy_seconds(copy->tensor);
        // The fetch waits for the node in front of it, so that one has to end by then.
        const auto after = std::upper_bound(begin.begin(), begin.end() - 1, next_begin);
        const auto place =
            static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, after - begin.begin() - 1));
        copy->fetch_place =
            std::clamp(place, copy->send_place, static_cast<std::size_t>(copy->first_late));
    }
    // Fetches keep their order: one that had to wait for its sending delays the next ones.
    std::size_t earliest = 0;
    for (Copy& copy : copies) earliest = copy.fetch_place = std::max(earliest, copy.fetch_place);
    std::vector<std::pair<std::size_t, std::int32_t>> listed;
    for (const Copy& copy : copies) {
        listed.emplace_back(copy.send_place, node_count() + copy.tensor);
    }
    // In front of one node, sendings come before fetches.
    for (const Copy& copy : copies) {
        const auto place = std::min(copy.fetch_place, static_cast<std::size_t>(copy.first_late));
        listed.emplace_back(place, node_count() + tensor_count() + copy.tensor);
    }
    std::stable_sort(listed.begin(), listed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::int32_t> sequence;
    sequence.reserve(nodes.size() + listed.size());
    auto next = listed.begin();
    for (std::size_t p = 0; p < nodes.size(); ++p) {
        for (; next != listed.end() && next->first == p; ++next) sequence.push_back(next->second);
        sequence.push_back(nodes[p]);
    }
    return sequence;
}

std::vector<std::int64_t> Step::live_bytes(std::span<const std::int32_t> sequence) const {
    std::vector<std::int64_t> live(sequence.size() + 1, 0);
    // Where the latest copy of each tensor was made, and where it was last used.
    std::vector<std::int32_t> born(columns_.size.size(), -1), used(columns_.size.size(), -1);
    const auto bury = [&](std::int32_t t) {
        if (born[t] < 0) return;
        live[born[t]] += columns_.size[t];
        live[used[t] + 1] -= columns_.size[t];
    };
    for (std::size_t p = 0; p < sequence.size(); ++p) {
        const auto at = static_cast<std::int32_t>(p);
        const auto make = [&](std::int32_t t) {
            bury(t);
            born[t] = used[t] = at;
        };
        const std::int32_t entry = sequence[p];
        if (entry >= node_count() + tensor_count()) {
            make(entry - node_count() - tensor_count());
        } else if (entry >= node_count()) {
            used[entry - node_count()] = at;
        } else {
            for (const std::int32_t t : makes_.row(entry)) make(t);
            for (const std::int32_t t : reads_.row(entry)) used[t] = at;
        }
    }
    for (std::int32_t t = 0; t < tensor_count(); ++t) bury(t);
    for (std::size_t p = 1; p < live.size(); ++p) live[p] += live[p - 1];
    live.pop_back();
    return live;
}

double Step::total_seconds(std::span<const std::int32_t> sequence) const {
    // Ends of the nodes, sendings and fetches so far; and of the copy that each tensor waits for.
    double nodes_end = 0, sends_end = 0, fetches_end = 0;
    std::vector<double> sent(columns_.size.size(), 0), fetched(columns_.size.size(), 0);
    std::vector<double> ready(columns_.size.size(), 0);
    double waits_for = 0;
    for (const std::int32_t entry : sequence) {
        if (entry >= node_count() + tensor_count()) {
            const std::int32_t t = entry - node_count() - tensor_count();
            const double begin = std::max({fetches_end, nodes_end, sent[t]});
            fetches_end = fetched[t] = begin + copy_seconds(t);
        } else if (entry >= node_count()) {
            const std::int32_t t = entry - node_count();
            sends_end = sent[t] = std::max(sends_end, ready[t]) + copy_seconds(t);
            waits_for = std::max(waits_for, sends_end);
        } else {
            double begin = std::max(nodes_end, waits_for);
            for (const std::int32_t t : reads_.row(entry)) begin = std::max(begin, fetched[t]);
            nodes_end = begin + columns_.seconds[entry];
            for (const std::int32_t t : makes_.row(entry)) ready[t] = nodes_end;
            for (const std::int32_t t : reads_.row(entry)) {
                const bool changes = columns_.unit[entry] == columns_.unit[columns_.producer[t]];
                if (changes) ready[t] = nodes_end;
            }
        }
    }
    return std::max({nodes_end, sends_end, fetches_end});
}

SequenceCost Step::cost(std::span<const std::int32_t> sequence, std::int64_t limit) const {
    limit = std::max<std::int64_t>(limit, 0);
    SequenceCost found;
    double over = 0;
    for (const std::int64_t bytes : live_bytes(sequence)) {
        found.peak = std::max(found.peak, bytes);
        if (bytes > limit) over += static_cast<double>(bytes - limit);
    }
    found.excess = over / static_cast<double>(std::max<std::int64_t>(limit, 1));
    found.seconds = std::max(0.0, total_seconds(sequence) - base_seconds_);
    return found;
}

}  // namespace gapless
