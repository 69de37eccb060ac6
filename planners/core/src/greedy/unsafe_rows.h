// The rows of unsafe pairs of one block's members: stored ones, or rows computed on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/instance.h"

namespace gapless {

// Rows that the instance stores.
class KeptRows {
  public:
    explicit KeptRows(const Instance& instance) : instance_(instance) {}

    std::size_t words() const { return instance_.unsafe_rows->words(); }
    std::int32_t number(std::int32_t tensor) const { return tensor; }
    const std::uint64_t* of(std::int32_t block, std::size_t member) const {
        return instance_.unsafe_rows->row(instance_.blocks.members_of(block)[member]);
    }

  private:
    const Instance& instance_;
};

// Rows computed from a graph's order. They are kept for the block that was asked for last.
class MadeRows {
  public:
    explicit MadeRows(const Instance& instance) : instance_(instance) {}

    std::size_t words() const { return instance_.stream_order->words(); }
    std::int32_t number(std::int32_t tensor) const {
        return instance_.stream_order->number(tensor);
    }
    const std::uint64_t* of(std::int32_t block, std::size_t member) {
        if (std::exchange(block_, block) != block) {
            const auto members = instance_.blocks.members_of(block);
            if (rows_.size() < members.size()) rows_.resize(members.size());
            for (std::size_t m = 0; m < members.size(); ++m) {
                instance_.stream_order->find_row(members[m], rows_[m]);
            }
        }
        return rows_[member].data();
    }

  private:
    const Instance& instance_;
    std::int32_t block_ = -1;
    std::vector<std::vector<std::uint64_t>> rows_;
};

}  // namespace gapless
