// A listing of the segments and blocks of an online allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// The number of a private pool, in which a program makes requests that share no memory with others;
// 0 is the common pool.
using PoolId = std::uint64_t;

enum class OnlineState : std::uint8_t {
    allocated,
    pending,  // freed, but another stream may still use it
    free,
    unmapped,  // without memory
};

struct OnlineBlock {
    Address address;
    std::size_t bytes;
    std::size_t requested;  // for an allocated block only
    OnlineState state;
};

// The facts on a live block.
struct LiveBlock {
    std::size_t bytes;
    std::size_t requested;
    Stream stream;              // the stream of its request
    std::size_t other_streams;  // number of other streams that use it
};

// Adjacent blocks that may be merged into one.
struct OnlineSegment {
    Address address;
    std::size_t bytes;
    Stream stream;
    bool is_plain;                    // one plain allocation of the device
    std::vector<OnlineBlock> blocks;  // by address, without gaps
    PoolId pool = 0;
};

}  // namespace gapless::runtime
