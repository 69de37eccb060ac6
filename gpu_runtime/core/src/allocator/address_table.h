// A flat hash table from a block's first address to the block.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Open addressing with linear probing, at most half full. Erasing leaves no tombstone: later
// entries of the probe sequence move up. So lookups do not slow down during a long training run.
template <class T>
class AddressTable {
  public:
    AddressTable() : entries_(kFirstBuckets), shift_(64 - std::countr_zero(kFirstBuckets)) {}

    T* find(Address address) const {
        for (std::size_t i = bucket_of(address);; i = next(i)) {
            if (entries_[i].address == address) return entries_[i].value;
            if (entries_[i].value == nullptr) return nullptr;
        }
    }

    void insert(Address address, T* value) {
        if (2 * (count_ + 1) > entries_.size()) grow();
        place({address, value});
        ++count_;
    }

    void erase(Address address) {
        std::size_t i = bucket_of(address);
        while (entries_[i].address != address) {
            if (entries_[i].value == nullptr) return;
            i = next(i);
        }
        // An entry moves into the gap unless its own bucket lies behind the gap.
        for (std::size_t j = next(i); entries_[j].value != nullptr; j = next(j)) {
            const std::size_t own = bucket_of(entries_[j].address);
            if (((j - own) & (entries_.size() - 1)) < ((j - i) & (entries_.size() - 1))) continue;
            entries_[i] = entries_[j];
            i = j;
        }
        entries_[i] = {};
        --count_;
    }

    std::size_t size() const { return count_; }

  private:
    // Buckets of an empty table, a power of two. A guess.
    static constexpr std::size_t kFirstBuckets = 1024;
    struct Entry {
        Address address = 0;
        T* value = nullptr;
    };

    // Fibonacci hashing: takes the high bits of the product.
    std::size_t bucket_of(Address address) const {
        return static_cast<std::size_t>((address >> 9) * 0x9E3779B97F4A7C15u >> shift_);
    }
    std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }

    void place(const Entry& entry) {
        std::size_t i = bucket_of(entry.address);
        while (entries_[i].value != nullptr) i = next(i);
        entries_[i] = entry;
    }

    void grow() {
        std::vector<Entry> before(2 * entries_.size());
        before.swap(entries_);
        --shift_;
        for (const Entry& entry : before) {
            if (entry.value != nullptr) place(entry);
        }
    }

    std::vector<Entry> entries_;
    int shift_;
    std::size_t count_ = 0;
};

}  // namespace gapless::runtime
