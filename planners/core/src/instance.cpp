#include "instance.h"

#include <algorithm>

namespace gapless {

namespace {

struct Placed {
    std::int64_t begin, end;
    std::int32_t tensor;
};

std::vector<Placed> pinned_tensors(const Instance& instance) {
    std::vector<Placed> placed;
    const Blocks& blocks = instance.blocks;
    for (std::int32_t b = 0; b < blocks.count(); ++b) {
        if (blocks.pinned[b] == kNotPinned) continue;
        const auto members = blocks.members_of(b);
        for (std::size_t m = 0; m < members.size(); ++m) {
            const std::int64_t begin = blocks.pinned[b] + blocks.before_of(b, m);
            const std::int64_t bytes = instance.size[members[m]];
            if (bytes > 0) placed.push_back({begin, begin + bytes, members[m]});
        }
    }
    return placed;
}

// Calls `meet` for any two ranges of different tensors that share a section.
template <class Meet>
void for_each_overlap(const Sections& sections, std::int32_t tensors, Meet meet) {
    std::vector<std::pair<SectionRange, std::int32_t>> by_first;
    for (std::int32_t t = 0; t < tensors; ++t) {
        for (const SectionRange& range : sections.of(t)) by_first.emplace_back(range, t);
    }
    std::sort(by_first.begin(), by_first.end(),
              [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
    for (std::size_t i = 0; i < by_first.size(); ++i) {
        const auto& [range, tensor] = by_first[i];
        for (std::size_t j = i + 1; j < by_first.size(); ++j) {
            if (by_first[j].first.first >= range.last) break;
            if (by_first[j].second != tensor) meet(tensor, by_first[j].second);
        }
    }
}

}  // namespace

Instance Instance::with_rows() const {
    if (unsafe_rows) return *this;
    auto rows = std::make_shared<BitRows>(size.size(), size.size());
    for_each_overlap(*sections, tensor_count(), [&](std::int32_t a, std::int32_t b) {
        rows->set(a, b);
        rows->set(b, a);
    });
    return {columns, size, blocks, std::nullopt, std::move(rows)};
}

std::optional<std::pair<std::int32_t, std::int32_t>> Instance::conflicting_pins() const {
    std::vector<Placed> placed = pinned_tensors(*this);
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    std::vector<Placed> open;
    for (const Placed& next : placed) {
        std::erase_if(open, [&](const Placed& p) { return p.end <= next.begin; });
        for (const Placed& p : open) {
            if (unsafe(p.tensor, next.tensor)) return std::minmax(p.tensor, next.tensor);
        }
        open.push_back(next);
    }
    return std::nullopt;
}

std::vector<std::int32_t> Instance::unsafe_with(std::int32_t tensor) const {
    std::vector<std::int32_t> others;
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        if (t != tensor && unsafe(tensor, t)) others.push_back(t);
    }
    return others;
}

std::vector<std::int64_t> Instance::unsafe_degrees() const {
    if (sections) return sections->degrees();
    std::vector<std::int64_t> degree(size.size());
    for (std::size_t t = 0; t < size.size(); ++t) degree[t] = unsafe_rows->count_row(t);
    return degree;
}

std::vector<std::int64_t> Instance::unsafe_pairs() const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    if (sections) {
        for_each_overlap(*sections, tensor_count(), [&](std::int32_t a, std::int32_t b) {
            if (size[a] > 0 && size[b] > 0) pairs.emplace_back(std::minmax(a, b));
        });
        // Tensors with gaps may meet more than once.
        std::sort(pairs.begin(), pairs.end());
        pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    } else {
        for (std::int32_t a = 0; a < tensor_count(); ++a) {
            if (size[a] == 0) continue;
            unsafe_rows->for_each_in_row(a, [&](std::size_t b) {
                if (static_cast<std::int32_t>(b) > a && size[b] > 0) pairs.emplace_back(a, b);
            });
        }
    }
    std::vector<std::int64_t> flat;
    flat.reserve(2 * pairs.size());
    for (const auto& [a, b] : pairs) flat.insert(flat.end(), {a, b});
    return flat;
}

std::vector<std::int64_t> Instance::grow_clique(std::int64_t first,
                                                std::span<const std::int64_t> order) const {
    const std::uint64_t* row = unsafe_rows->row(first);
    std::vector<std::uint64_t> candidates(row, row + unsafe_rows->words());
    std::vector<std::int64_t> clique{first};
    for (const std::int64_t t : order) {
        if ((candidates[t / kWordBits] & BitRows::bit(t)) == 0) continue;
        clique.push_back(t);
        row = unsafe_rows->row(t);
        for (std::size_t w = 0; w < candidates.size(); ++w) candidates[w] &= row[w];
    }
    return clique;
}

}  // namespace gapless
