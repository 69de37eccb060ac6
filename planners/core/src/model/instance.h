// The problem in the form that the core works on.
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

// The blocks of a problem (see planners/model/blocks.py). The spans refer to memory that somebody
// else owns.
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
    std::int64_t align(std::int32_t block, std::int64_t at) const {
        return at + ((residue[block] - at) & (modulus[block] - 1));
    }
    // Sets the offsets of the members of a block that begins at `head`.
    void set_offsets(std::int32_t block, std::int64_t head, std::vector<std::int64_t>& to) const {
        const std::span<const std::int32_t> tensors = members_of(block);
        for (std::size_t m = 0; m < tensors.size(); ++m) {
            to[tensors[m]] = head + before_of(block, m);
        }
    }
};

// Throws std::out_of_range if a member does not exist, and std::invalid_argument if the columns do
// not fit together or a tensor is not in exactly one block.
void require_blocks(const Blocks& blocks);

// Throws std::invalid_argument if the blocks do not match these tensor sizes, and
// std::overflow_error if the bytes together exceed what any problem may have.
void require_sizes(std::span<const std::int64_t> size, const Blocks& blocks);

struct Instance {
    // Owns the memory that `size` and `blocks` refer to, in the form that require_sizes demands.
    std::shared_ptr<const void> columns;
    std::span<const std::int64_t> size;
    Blocks blocks;
    // Exactly one of these three decides safety: sections of lifetimes, rows of unsafe pairs, or
    // the order that a graph gives. The order takes less memory than rows when there are many
    // tensors.
    std::optional<Sections> sections;
    std::shared_ptr<const BitRows> unsafe_rows;
    std::shared_ptr<const StreamOrder> stream_order = nullptr;

    std::int32_t tensor_count() const { return static_cast<std::int32_t>(size.size()); }

    // Calls visit(m, tensor, bytes, before) for each member `m` of a block that has bytes; `before`
    // are the bytes from the beginning of the block to this member.
    template <class Visit>
    void each_member(std::int32_t block, Visit visit) const {
        const std::span<const std::int32_t> tensors = blocks.members_of(block);
        for (std::size_t m = 0; m < tensors.size(); ++m) {
            const std::int64_t bytes = size[tensors[m]];
            if (bytes > 0) visit(m, tensors[m], bytes, blocks.before_of(block, m));
        }
    }

    bool unsafe(std::int32_t a, std::int32_t b) const {
        if (sections) return sections->overlap(a, b);
        return unsafe_rows ? unsafe_rows->test(a, b) : stream_order->unsafe(a, b);
    }

    // Returns the same problem with safety stored as rows of unsafe pairs.
    Instance with_rows(Stop& stop) const;

    // Returns two unsafe tensors whose pinned places share a byte, or nothing.
    std::optional<std::pair<std::int32_t, std::int32_t>> conflicting_pins(Stop& stop) const;

    // Returns the tensors that are unsafe with `tensor`, in rising order.
    std::vector<std::int32_t> unsafe_with(std::int32_t tensor) const;

    // Returns, for each tensor, the number of tensors that it is unsafe with.
    std::vector<std::int64_t> unsafe_degrees(Stop& stop) const;

    // Returns each unsafe pair of tensors of nonzero size once: a, b, a, b, ... with a < b, sorted.
    // Throws std::length_error if the pairs would take more than 4 GiB.
    std::vector<std::int64_t> unsafe_pairs(Stop& stop) const;

    // Grows a clique greedily: `first`, then each tensor of `order` that is unsafe with all tensors
    // taken before it. Requires `unsafe_rows`.
    std::vector<std::int64_t> grow_clique(std::int64_t first,
                                          std::span<const std::int64_t> order) const;
};

}  // namespace gapless
