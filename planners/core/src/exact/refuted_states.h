// A table of the states that a search refuted.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace gapless {

// A state: the unplaced tensors in the order of their part, their lows, and the position.
template <class Bytes>
class RefutedStates {
  public:
    struct Position {
        Bytes offset;
        std::int32_t rank;
        bool operator<=(const Position& other) const {
            return offset != other.offset ? offset < other.offset : rank <= other.rank;
        }
    };

    void clear() {
        heads_.clear();
        entries_.clear();
        tensors_.clear();
        lows_.clear();
    }

    // Returns true if the same tensors were refuted with lows and a position that are no higher.
    bool recall(std::uint64_t key, std::span<const std::int32_t> tensors,
                const std::vector<Bytes>& low, Position position) const {
        const auto head = heads_.find(key);
        if (head == heads_.end()) return false;
        for (std::int64_t e = head->second; e >= 0; e = entries_[e].next) {
            if (entries_[e].position <= position && covers(entries_[e], tensors, low)) return true;
        }
        return false;
    }

    void remember(std::uint64_t key, std::span<const std::int32_t> tensors,
                  std::span<const Bytes> lows, Position position) {
        if (lows_.size() + kValuesAnEntry * (entries_.size() + 1) > kMostValues) return;
        const auto [head, fresh] = heads_.try_emplace(key, -1);
        entries_.push_back({position, static_cast<std::int64_t>(lows_.size()),
                            static_cast<std::int64_t>(lows.size()), head->second});
        head->second = static_cast<std::int64_t>(entries_.size()) - 1;
        tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
        lows_.insert(lows_.end(), lows.begin(), lows.end());
    }

  private:
    struct Entry {
        Position position;
        std::int64_t begin, count, next;
    };

    // Hashes may collide, and a proof must not depend on them. So the tensors are compared as well.
    bool covers(const Entry& entry, std::span<const std::int32_t> tensors,
                const std::vector<Bytes>& low) const {
        if (entry.count != static_cast<std::int64_t>(tensors.size())) return false;
        for (std::int64_t i = 0; i < entry.count; ++i) {
            const std::int32_t tensor = tensors[i];
            if (tensors_[entry.begin + i] != tensor || lows_[entry.begin + i] > low[tensor]) {
                return false;
            }
        }
        return true;
    }

    // Limits the table to about 100 MB. An entry counts for kValuesAnEntry values.
    static constexpr std::size_t kMostValues = std::size_t{1} << 23;
    static constexpr std::size_t kValuesAnEntry = 10;
    std::unordered_map<std::uint64_t, std::int64_t> heads_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> tensors_;
    std::vector<Bytes> lows_;
};

}  // namespace gapless
