// What PyTorch's users configure of its allocator, and how sizes follow from it.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

namespace gapless::runtime {

// The sizes are those of PYTORCH_CUDA_ALLOC_CONF, in bytes.
struct PytorchSettings {
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    // Sizes from 1 MiB on have a number of divisions for each power of two.
    static constexpr std::size_t kPowers = 16;

    // A larger free block is not split, nor given to a request that is smaller than this.
    std::size_t max_split_bytes = kUnlimited;
    // How much larger a block that is not split may be than a request.
    std::size_t max_non_split_rounding_bytes = std::size_t{20} << 20;
    // Into how many steps the way to the next power of two is divided; 0 and 1 for steps of 512.
    std::array<std::size_t, kPowers> roundup_power2_divisions{};
    // The share of the memory that may be used above which idle segments leave; 0 for none.
    double garbage_collection_threshold = 0;
    // For requests below 10 MiB that are not small.
    std::size_t large_segment_bytes = std::size_t{20} << 20;
    // Of an expandable segment for requests that are not small; 0 for as much as a segment.
    std::size_t expandable_page_bytes = 0;
    // The share of the device that may be used.
    double per_process_memory_fraction = 1;

    // Throws std::invalid_argument where a field breaks a rule.
    void validate() const;

    // Bytes of the block for a request.
    std::size_t rounded(std::size_t requested) const;
    // Bytes of the segment for a block.
    std::size_t segment_for(std::size_t bytes) const;
};

}  // namespace gapless::runtime
