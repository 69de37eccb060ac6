// The settings of PyTorch's allocator, and the sizes that follow from them.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

namespace gapless::runtime {

// The settings of PYTORCH_CUDA_ALLOC_CONF, with sizes in bytes.
struct PytorchSettings {
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    // Sizes from 1 MiB on have a number of divisions for each power of two.
    static constexpr std::size_t kPowers = 16;

    // Larger free blocks are not split, and serve no request below this size.
    std::size_t max_split_bytes = kUnlimited;
    // The most bytes by which an unsplit block may exceed its request.
    std::size_t max_non_split_rounding_bytes = std::size_t{20} << 20;
    // The number of sizes between two powers of two; 0 and 1 stand for multiples of 512 bytes.
    std::array<std::size_t, kPowers> roundup_power2_divisions{};
    // The share of the usable memory above which idle segments are freed; 0 stands for never.
    double garbage_collection_threshold = 0;
    // The segment for a request below 10 MiB that is not small.
    std::size_t large_segment_bytes = std::size_t{20} << 20;
    // The page of an expandable segment for such requests; 0 stands for `large_segment_bytes`.
    std::size_t expandable_page_bytes = 0;
    // The usable share of the device.
    double per_process_memory_fraction = 1;

    // Throws std::invalid_argument if a field breaks a rule.
    void validate() const;

    // Returns the bytes of the block for a request.
    std::size_t rounded(std::size_t requested) const;
    // Returns the bytes of the segment for a block.
    std::size_t segment_for(std::size_t bytes) const;
};

}  // namespace gapless::runtime
