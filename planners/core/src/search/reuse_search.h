// Local search for a plan within a capacity whose reuse of bytes costs least.
#pragma once

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
// An attempt takes out a few blocks: one that pays, and blocks that are unsafe or priced with those
// taken out before. It puts them back in a random order, each where it pays least, and there as low
// as it can. Of a block alone the least price is exact: between two ends of other blocks nothing
// changes, so that only these ends are tried. An attempt is kept if the plan then costs at most
// what it cost `kMemory` attempts ago; otherwise, or if a block finds no place below the capacity,
// the blocks return to where they were. So each state is a plan within the capacity.
class ReuseSearch {
  public:
    // `prices` has rows (tensor, tensor, price). `heads` are the offsets of the blocks in a valid
    // plan within the capacity. Requires `unsafe_rows`. Throws std::invalid_argument if the columns
    // do not fit the instance.
    ReuseSearch(const Instance& instance, std::span<const std::int64_t> prices,
                std::int64_t capacity, std::span<const std::int64_t> heads, std::uint64_t seed);

    // Makes attempts until a plan costs at most `goal`; returns the number of attempts made.
    std::int64_t run(std::int64_t attempts, std::int64_t goal, Stop& stop);

    std::int64_t least_cost() const { return least_; }
    const std::vector<std::int64_t>& best_heads() const { return best_; }

  private:
    // The head of the block is at `other`'s head plus a number in [from, to) if and only if a
    // member of one shares a byte with a member of the other. A price of kUnsafe forbids it.
    struct Link {
        std::int32_t other;
        std::int64_t from, to, price;
    };
    struct Change {
        std::int64_t at, price, unsafe;
    };
    struct Place {
        std::int64_t head, price;
    };

    void add_links(std::int32_t block, std::int32_t member, std::int32_t other, std::int32_t with,
                   std::int64_t price);
    bool is_shared(std::int32_t block, const Link& link) const;
    std::int64_t price_of(std::int32_t block) const;
    std::int64_t price_of_all() const;
    bool find_place(std::int32_t block, Place& best);
    std::int64_t take_out();
    std::optional<std::int64_t> put_back(std::int64_t most);

    // Owns the memory that `blocks_` refers to.
    std::shared_ptr<const void> columns_;
    Blocks blocks_;
    std::int64_t capacity_;
    Random random_;
    std::vector<std::vector<Link>> links_;
    std::vector<std::int32_t> movable_;
    // Heads of the current plan; kOut for a block that is taken out.
    std::vector<std::int64_t> heads_, best_, before_;
    std::vector<std::int32_t> taken_, order_;
    std::vector<Change> changes_;
    std::vector<std::int64_t> costs_;
    std::int64_t cost_ = 0, least_ = 0, attempts_ = 0;
};

}  // namespace gapless
