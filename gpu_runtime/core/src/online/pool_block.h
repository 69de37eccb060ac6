// The blocks of pools, and the ordered lists that they are found in.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <set>
#include <vector>

#include "device/device_memory.h"
#include "online/online_segment.h"

namespace gapless::runtime {

struct PoolBlock;

// With what is compared beside the block, which need not be looked at.
struct ListedBlock {
    std::size_t bytes;
    Address address;
    PoolBlock* block;
    auto operator<=>(const ListedBlock&) const = default;
};
// The smallest first, of one size that with the lowest address.
using BlockList = std::pmr::set<ListedBlock>;

struct PoolSegment;

// What a stream has for small requests, or for large ones.
struct StreamPool {
    StreamPool(Stream owner, bool small, std::pmr::memory_resource* memory)
        : stream(owner), is_small(small), free(memory), unmapped(memory) {}

    Stream stream;
    bool is_small;
    BlockList free;
    BlockList unmapped;  // all with 0 for their bytes: by address
};

// A stretch of a segment, with a neighbour wherever it does not end.
struct PoolBlock {
    Address address = 0;
    std::size_t bytes = 0;
    PoolBlock* before = nullptr;
    PoolBlock* behind = nullptr;
    StreamPool* pool = nullptr;
    PoolSegment* segment = nullptr;
    OnlineState state = OnlineState::free;
    std::size_t requested = 0;
    std::size_t pending = 0;      // what it waits for since it was freed
    std::vector<Stream> used_on;  // beside its own
    std::uint64_t listed_at = 0;  // in searches of its kind of pool
    BlockList::iterator place;    // where it is free or unmapped

    Address end() const { return address + bytes; }
};

// Addresses side by side, of one pool.
struct PoolSegment {
    Address address = 0;
    std::size_t bytes = 0;
    PoolBlock* first = nullptr;
    std::vector<Pages> pages;  // of an expandable one, by their place; 0 for none
};

}  // namespace gapless::runtime
