// The constants of virtual memory stitching.
#pragma once

#include <cstddef>

namespace gapless::runtime {

// Where the paper gives no number, or only an example, a user has to try.
struct GmlakeRules {
    // Physical memory comes in chunks; requests for less are small.
    std::size_t chunk_bytes = std::size_t{2} << 20;
    // Nothing is stitched for smaller requests: the paper's example.
    std::size_t fragmentation_limit_bytes = std::size_t{128} << 20;
    // The other reading of it: smaller blocks are neither split nor stitched, but serve as a whole.
    bool limits_blocks = false;
    // Stitched blocks that are kept, and bytes of their addresses.
    std::size_t most_stitched = 4096;
    std::size_t most_stitched_bytes = std::size_t{4} << 40;

    // Throws std::invalid_argument where a field breaks a rule.
    void validate(std::size_t page_bytes) const;
};

}  // namespace gapless::runtime
