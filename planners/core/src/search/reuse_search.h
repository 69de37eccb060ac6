// Local search for a plan whose places and reuse of bytes cost least.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/random.h"
#include "model/stop.h"

namespace gapless {

// Note [Ruin and recreate]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// After Schrimpf et al. 2000, with the late acceptance of Burke and Bykov 2017.
//
// A block may stay out, which costs more than all prices: plans are compared by the bytes that are
// out, then by price. So the search needs no first plan. It first puts back all blocks that are
// out, the largest first. Then an attempt takes out a few blocks: one that pays more than it must,
// or is out, and blocks that are unsafe or priced with those taken before. It puts them back in a
// random order, each where it pays least, and there as low as it can. Of a block alone the least
// price is exact: between two ends of other blocks or ranges nothing changes, so that only these
// ends are tried. An attempt is kept if the plan then costs at most what it cost `kMemory` attempts
// ago; otherwise the blocks return to where they were.
class ReuseSearch {
  public:
    struct Cost {
        std::int64_t bytes_out, price;
        auto operator<=>(const Cost&) const = default;
        Cost operator+(const Cost& o) const { return {bytes_out + o.bytes_out, price + o.price}; }
        Cost operator-(const Cost& o) const { return {bytes_out - o.bytes_out, price - o.price}; }
    };

    // `prices` has rows (tensor, tensor, price), `ranges` rows (block, first, last, modulus,
    // residue, cost) of the heads that blocks may have, ascending. `heads` are those of a plan
    // without conflicts; a block with bytes whose head is in none of its ranges is out. Requires
    // `unsafe_rows`. Throws std::invalid_argument if the columns do not fit the instance.
    ReuseSearch(const Instance& instance, std::span<const std::int64_t> prices,
                std::span<const std::int64_t> ranges, std::span<const std::int64_t> heads,
                std::uint64_t seed);

    // Makes attempts until a plan with all blocks costs at most `goal`; returns the number of
    // attempts made.
    std::int64_t run(std::int64_t attempts, std::int64_t goal, Stop& stop);

    Cost least() const { return least_; }
    // A block that is out has the head -1.
    const std::vector<std::int64_t>& best_heads() const { return best_; }

  private:
    // The head of the block is at `other`'s head plus a number in [from, to) if and only if a
    // member of one shares a byte with a member of the other. A price of kUnsafe forbids it.
    struct Link {
        std::int32_t other;
        std::int64_t from, to, price;
    };
    struct Range {
        std::int64_t first, last, modulus, residue, cost;
        std::int64_t align(std::int64_t at) const { return at + ((residue - at) & (modulus - 1)); }
    };
    struct Change {
        std::int64_t at, price, unsafe;
    };
    struct Place {
        std::int64_t head, price;
    };

    void add_ranges(std::span<const std::int64_t> rows);
    void add_all_links(const Instance& instance, std::span<const std::int64_t> prices);
    void add_links(std::int32_t block, std::int32_t member, std::int32_t other, std::int32_t with,
                   std::int64_t price);
    void enter(std::span<const std::int64_t> heads);
    bool is_fixed(std::int32_t block) const;
    bool is_shared(std::int32_t block, const Link& link) const;
    std::optional<std::int64_t> cost_at(std::int32_t block, std::int64_t head) const;
    Cost paid_by(std::int32_t block) const;
    bool pays(std::int32_t block) const;
    std::optional<Place> find_place(std::int32_t block);
    Cost put(std::int32_t block);
    Cost take_out();
    std::optional<Cost> put_back(Cost left, Cost most);
    void keep_if_best();

    // Owns the memory that `blocks_` refers to.
    std::shared_ptr<const void> columns_;
    Blocks blocks_;
    Random random_;
    std::vector<std::vector<Link>> links_;
    std::vector<std::vector<Range>> ranges_;
    // The least cost of the ranges of each block.
    std::vector<std::int64_t> must_pay_;
    // Blocks with a choice, and those that were never in, the next one last.
    std::vector<std::int32_t> movable_, waiting_;
    // Heads of the current plan; kOut for a block that is out.
    std::vector<std::int64_t> heads_, best_, before_;
    std::vector<std::int32_t> taken_, order_;
    std::vector<Change> changes_;
    std::vector<Cost> costs_;
    Cost cost_{0, 0}, least_{0, 0};
    std::int64_t attempts_ = 0;
};

}  // namespace gapless
