// The problem as the core works on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/bit_rows.h"
#include "model/sections.h"
#include "model/stop.h"
#include "safety/stream_order.h"

namespace gapless {

inline constexpr std::int64_t kNotPinned = -1;

// What is placed as one piece; see planners/model/blocks.py. Seen where somebody else keeps it.
struct Blocks {
    std::span<const std::int64_t> offsets;
    std::span<const std::int32_t> members;
    std::span<const std::int64_t> before;
    std::span<const std::int64_t> size, modulus, residue, pinned;

    std::int32_t count() const { return static_cast<std::int32_t>(size.size()); }
    std::span<const std::int32_t> members_of(std::int32_t block) const {
        return {members.data() + offsets[block],
                static_cast<std::size_t>(offsets[block + 1] - offsets[block])};
    }
    std::int64_t before_of(std::int32_t block, std::size_t member) const {
        return before[offsets[block] + static_cast<std::int64_t>(member)];
    }
    // The lowest offset at or above `at` that the block's alignment allows.
    std::int64_t align(std::int32_t block, std::int64_t at) const {
        return at + ((residue[block] - at) & (modulus[block] - 1));
    }
};

// Throws std::out_of_range for a member that does not exist, std::invalid_argument where columns do
// not fit together, or unless every tensor is in one block.
void require_blocks(const Blocks& blocks);

// Throws std::invalid_argument unless the blocks are those of tensors of these sizes,
// std::overflow_error for more bytes than any problem has.
void require_sizes(std::span<const std::int64_t> size, const Blocks& blocks);

struct Instance {
    // Keeps alive what `size` and `blocks` see, as require_sizes has them.
    std::shared_ptr<const void> columns;
    std::span<const std::int64_t> size;
    Blocks blocks;
    // Exactly one decides safety: sections of lifetimes, the rows of unsafe pairs, or the order
    // that a graph gives, which takes less memory where the rows would be large.
    std::optional<Sections> sections;
    std::shared_ptr<const BitRows> unsafe_rows;
    std::shared_ptr<const StreamOrder> stream_order = nullptr;

    std::int32_t tensor_count() const { return static_cast<std::int32_t>(size.size()); }

    bool unsafe(std::int32_t a, std::int32_t b) const {
        if (sections) return sections->overlap(a, b);
        return unsafe_rows ? unsafe_rows->test(a, b) : stream_order->unsafe(a, b);
    }

    // The same problem with rows of unsafe pairs, whatever decides.
    Instance with_rows(Stop& stop) const;

    // Two unsafe tensors whose pins share a byte, if any.
    std::optional<std::pair<std::int32_t, std::int32_t>> conflicting_pins(Stop& stop) const;

    // The tensors that one is unsafe with, rising.
    std::vector<std::int32_t> unsafe_with(std::int32_t tensor) const;

    // Number of tensors that each tensor is unsafe with.
    std::vector<std::int64_t> unsafe_degrees(Stop& stop) const;

    // Every unsafe pair of tensors that both have bytes, once: a, b, a, b, ... with a < b, sorted.
    // Throws std::length_error for more of them than 4 GiB hold.
    std::vector<std::int64_t> unsafe_pairs(Stop& stop) const;

    // Pairwise unsafe tensors: `first`, then each of `order` that is unsafe with all before it.
    // Needs rows.
    std::vector<std::int64_t> grow_clique(std::int64_t first,
                                          std::span<const std::int64_t> order) const;
};

}  // namespace gapless
