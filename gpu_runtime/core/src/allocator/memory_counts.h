// Bytes and blocks that a program has, as PyTorch counts them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

struct Count {
    std::int64_t current = 0;
    std::int64_t peak = 0;
    std::int64_t total = 0;  // all that was ever added

    void add(std::int64_t amount) {
        current += amount;
        total += amount;
        peak = std::max(peak, current);
    }
    void remove(std::int64_t amount) { current -= amount; }
    void reset_peak() { peak = current; }
};

// Of the blocks of one class of sizes, or of all.
struct BlockCounts {
    Count blocks;
    Count requested_bytes;
    Count allocated_bytes;  // rounded up to blocks

    void add(std::size_t requested, std::size_t allocated) {
        blocks.add(1);
        requested_bytes.add(static_cast<std::int64_t>(requested));
        allocated_bytes.add(static_cast<std::int64_t>(allocated));
    }
    void remove(std::size_t requested, std::size_t allocated) {
        blocks.remove(1);
        requested_bytes.remove(static_cast<std::int64_t>(requested));
        allocated_bytes.remove(static_cast<std::int64_t>(allocated));
    }
    void reset_peaks() {
        blocks.reset_peak();
        requested_bytes.reset_peak();
        allocated_bytes.reset_peak();
    }
};

}  // namespace gapless::runtime
