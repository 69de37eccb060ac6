#include "model/instance.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "model/require.h"
#include "safety/safety.h"

namespace gapless {

namespace {

// Limits unsafe_pairs to 4 GiB: each pair takes 16 bytes in the list and 16 in the flat copy.
constexpr std::size_t kMostPairs = std::size_t{1} << 27;

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

// Calls `meet` for any two section ranges of different tensors that share a section.
template <class Meet>
void for_each_overlap(const Sections& sections, std::int32_t tensors, Stop& stop, Meet meet) {
    std::vector<std::pair<SectionRange, std::int32_t>> by_first;
    for (std::int32_t t = 0; t < tensors; ++t) {
        for (const SectionRange& range : sections.of(t)) by_first.emplace_back(range, t);
    }
    std::sort(by_first.begin(), by_first.end(),
              [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
    for (std::size_t i = 0; i < by_first.size(); ++i) {
        stop.poll();
        const auto& [range, tensor] = by_first[i];
        for (std::size_t j = i + 1; j < by_first.size(); ++j) {
            if (by_first[j].first.first >= range.last) break;
            if (by_first[j].second != tensor) meet(tensor, by_first[j].second);
        }
    }
}

}  // namespace

void require_blocks(const Blocks& blocks) {
    require_count("members", blocks.members.size());
    require_length("offsets", blocks.offsets.size(), "block, and one more,",
                   blocks.size.size() + 1);
    require_offsets("offsets", blocks.offsets, blocks.members.size(), 1);
    require_length("before", blocks.before.size(), "member", blocks.members.size());
    require_length("modulus", blocks.modulus.size(), "block", blocks.size.size());
    require_block_conditions(blocks.modulus, blocks.residue, blocks.pinned);
    const auto tensors = static_cast<std::int64_t>(blocks.members.size());
    require_indices("members", blocks.members, "tensors", tensors);
    std::vector<bool> seen(blocks.members.size());
    for (std::size_t m = 0; m < blocks.members.size(); ++m) {
        const std::int32_t tensor = blocks.members[m];
        if (seen[tensor]) refuse("members", m, "a tensor is in one block and once", tensor);
        seen[tensor] = true;
    }
}

void require_sizes(std::span<const std::int64_t> size, const Blocks& blocks) {
    require_length("size", size.size(), "tensor of the blocks", blocks.members.size());
    std::int64_t farthest = 0;
    for (const std::int64_t pin : blocks.pinned) farthest = std::max(farthest, pin);
    std::int64_t total = require_total("pinned", {&farthest, 1});
    total = require_total("modulus", blocks.modulus, total);
    require_total("size", size, total);
    for (std::int32_t b = 0; b < blocks.count(); ++b) {
        std::int64_t bytes = 0;
        for (std::int64_t m = blocks.offsets[b]; m < blocks.offsets[b + 1]; ++m) {
            if (blocks.before[m] != bytes) {
                refuse("before", static_cast<std::size_t>(m),
                       "the members in front have " + std::to_string(bytes) + " bytes",
                       blocks.before[m]);
            }
            bytes += size[blocks.members[m]];
        }
        if (blocks.size[b] != bytes) {
            refuse("size of blocks", b, "its members have " + std::to_string(bytes) + " bytes",
                   blocks.size[b]);
        }
    }
}

Instance Instance::with_rows(Stop& stop) const {
    if (unsafe_rows) return *this;
    if (stream_order) {
        return {columns, size, blocks, std::nullopt,
                std::make_shared<const BitRows>(unsafe_by_clocks(stream_order->graph(), stop))};
    }
    auto rows = std::make_shared<BitRows>(size.size(), size.size());
    for_each_overlap(*sections, tensor_count(), stop, [&](std::int32_t a, std::int32_t b) {
        rows->set(a, b);
        rows->set(b, a);
    });
    return {columns, size, blocks, std::nullopt, std::move(rows)};
}

std::optional<std::pair<std::int32_t, std::int32_t>> Instance::conflicting_pins(Stop& stop) const {
    std::vector<Placed> placed = pinned_tensors(*this);
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    std::vector<Placed> open;
    for (const Placed& next : placed) {
        stop.poll();
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
    if (unsafe_rows) {
        unsafe_rows->for_each_in_row(
            tensor, [&](std::size_t t) { others.push_back(static_cast<std::int32_t>(t)); });
        return others;
    }
    if (stream_order) {
        std::vector<std::uint64_t> row;
        stream_order->find_row(tensor, row);
        for_each_one(row, [&](std::size_t number) {
            others.push_back(stream_order->tensor(static_cast<std::int32_t>(number)));
        });
        std::sort(others.begin(), others.end());
        return others;
    }
    for (std::int32_t t = 0; t < tensor_count(); ++t) {
        if (t != tensor && sections->overlap(tensor, t)) others.push_back(t);
    }
    return others;
}

std::vector<std::int64_t> Instance::unsafe_degrees(Stop& stop) const {
    if (sections) return sections->degrees(stop);
    if (stream_order) return stream_order->degrees(stop);
    std::vector<std::int64_t> degree(size.size());
    for (std::size_t t = 0; t < size.size(); ++t) degree[t] = unsafe_rows->count_row(t);
    return degree;
}

std::vector<std::int64_t> Instance::unsafe_pairs(Stop& stop) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    const auto add = [&](std::int64_t a, std::int64_t b) {
        if (pairs.size() == kMostPairs) {
            throw std::length_error("unsafe pairs: more than " + std::to_string(kMostPairs) +
                                    " would take more than 4 GiB");
        }
        pairs.emplace_back(a, b);
    };
    if (sections) {
        for_each_overlap(*sections, tensor_count(), stop, [&](std::int32_t a, std::int32_t b) {
            if (size[a] > 0 && size[b] > 0) add(std::min(a, b), std::max(a, b));
        });
        // Two tensors with gaps can share several sections, so a pair can occur more than once.
        std::sort(pairs.begin(), pairs.end());
        pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    } else {
        for (std::int32_t a = 0; a < tensor_count(); ++a) {
            stop.poll();
            if (size[a] == 0) continue;
            for (const std::int32_t b : unsafe_with(a)) {
                if (b > a && size[b] > 0) add(a, b);
            }
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
