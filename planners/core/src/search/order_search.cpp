#include "search/order_search.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "greedy/free_ranges.h"
#include "greedy/unsafe_rows.h"
#include "model/random.h"

namespace gapless {

namespace {

// Length of late acceptance, in attempts. A guess.
constexpr std::size_t kMemory = 50;

// First fit in an order that changes. Blocks in the common prefix of two orders stay placed.
class FirstFit {
  public:
    FirstFit(const Instance& instance, std::int64_t limit)
        // Under a limit below 0 nothing fits either, and 0 minus a size does not overflow.
        : instance_(instance),
          limit_(std::max<std::int64_t>(limit, 0)),
          head_(instance.blocks.count(), 0),
          rows_(instance) {
        const Blocks& blocks = instance.blocks;
        for (std::int32_t b = 0; b < blocks.count(); ++b) {
            if (blocks.pinned[b] == kNotPinned) continue;
            head_[b] = blocks.pinned[b];
            occupy_in(list_, instance, rows_, b, head_[b]);
        }
    }

    // Places blocks in the given order until one does not end below the limit. Returns true if all
    // did.
    bool place(std::span<const std::int32_t> order, Stop& stop) {
        std::size_t same = 0;
        while (same < placed_.size() && placed_[same] == order[same]) ++same;
        while (placed_.size() > same) take_last();
        while (placed_.size() < order.size()) {
            stop.poll();
            if (!put(order[placed_.size()])) return false;
        }
        return true;
    }

    std::int64_t count() const { return static_cast<std::int64_t>(placed_.size()); }
    std::int64_t bytes() const { return bytes_; }

    std::vector<std::int64_t> offsets() const {
        std::vector<std::int64_t> offsets(instance_.size.size());
        for (std::int32_t b = 0; b < instance_.blocks.count(); ++b) {
            instance_.blocks.set_offsets(b, head_[b], offsets);
        }
        return offsets;
    }

  private:
    bool put(std::int32_t block) {
        const Blocks& blocks = instance_.blocks;
        if (blocks.pinned[block] == kNotPinned) {
            FitChoice choice(instance_, block, {});
            offer_all(instance_, list_, rows_, block, 0, limit_ - blocks.size[block], scratch_,
                      choice);
            if (!choice.found()) return false;
            head_[block] = choice.chosen();
            occupy_in(list_, instance_, rows_, block, head_[block]);
        } else if (head_[block] + blocks.size[block] >= limit_) {
            return false;
        }
        placed_.push_back(block);
        bytes_ += blocks.size[block];
        return true;
    }

    void take_last() {
        const std::int32_t block = placed_.back();
        placed_.pop_back();
        bytes_ -= instance_.blocks.size[block];
        if (instance_.blocks.pinned[block] == kNotPinned) {
            vacate_in(list_, instance_, rows_, block, head_[block]);
        }
    }

    const Instance& instance_;
    std::int64_t limit_;
    std::int64_t bytes_ = 0;
    std::vector<std::int64_t> head_;
    std::vector<std::int32_t> placed_;
    KeptRows rows_;
    ChunkedList list_;
    std::vector<Interval> scratch_;
};

// Moves the block at `from` forward to `to`; the blocks between move back by one.
void move_up(std::vector<std::int32_t>& order, std::int64_t from, std::int64_t to) {
    std::rotate(order.begin() + to, order.begin() + from, order.begin() + from + 1);
}

void move_back(std::vector<std::int32_t>& order, std::int64_t from, std::int64_t to) {
    std::rotate(order.begin() + to, order.begin() + to + 1, order.begin() + from + 1);
}

// Returns a random earlier position. The reach doubles until a draw below `far` ends it, so most
// moves are short.
std::int64_t random_target(std::int64_t from, std::uint64_t far, Random& random) {
    std::int64_t reach = 1;
    while (reach < from && random.below(far) != 0) reach *= 2;
    return from - 1 - static_cast<std::int64_t>(random.below(std::min(reach, from)));
}

}  // namespace

OrderSearchStep search_orders(const Instance& instance, std::span<const std::int32_t> order,
                              std::int64_t limit, std::int64_t attempts, std::uint64_t seed,
                              Stop& stop) {
    if (!instance.unsafe_rows) throw std::invalid_argument("rows of unsafe pairs are needed");
    require_partial_order(instance, order);
    Random random(seed);
    const std::uint64_t far = std::uint64_t{2} << random.below(3);
    FirstFit fit(instance, limit);
    OrderSearchStep step{{}, {order.begin(), order.end()}, 0};
    std::array<std::int64_t, kMemory> worth{};
    std::int64_t failed = -1;
    std::int64_t target = -1;
    while (step.attempts < attempts) {
        const bool complete = fit.place(step.order, stop);
        std::int64_t& remembered = worth[step.attempts++ % kMemory];
        if (complete) {
            step.offsets = fit.offsets();
            return step;
        }
        if (failed < 0 || fit.bytes() >= remembered) {
            remembered = fit.bytes();
            failed = fit.count();
        } else {
            move_back(step.order, failed, target);
        }
        if (failed == 0) {
            step.none = true;
            return step;
        }
        target = random_target(failed, far, random);
        move_up(step.order, failed, target);
    }
    return step;
}

}  // namespace gapless
