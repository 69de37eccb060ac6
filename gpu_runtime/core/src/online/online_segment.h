// What an online allocator holds, as a listing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

enum class OnlineState : std::uint8_t {
    allocated,
    pending,  // freed, and another stream may be at work there
    free,
    unmapped,  // no memory is behind it
};

struct OnlineBlock {
    Address address;
    std::size_t bytes;
    std::size_t requested;  // of an allocated block
    OnlineState state;
};

// What is known of a block that a program has.
struct LiveBlock {
    std::size_t bytes;
    std::size_t requested;
    Stream stream;              // that asked for it
    std::size_t other_streams;  // that use it as well
};

// Blocks that lie side by side, and could become one.
struct OnlineSegment {
    Address address;
    std::size_t bytes;
    Stream stream;
    bool is_plain;                    // one plain allocation of the device's
    std::vector<OnlineBlock> blocks;  // by address, without a gap
};

}  // namespace gapless::runtime
