// The blocks of pools, and the ordered lists of these blocks.
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

// A block, with copies of the fields that order a list.
struct ListedBlock {
    std::size_t bytes;
    Address address;
    PoolBlock* block;
    auto operator<=>(const ListedBlock&) const = default;
};
// Ordered by size, and by address among blocks of one size.
using BlockList = std::pmr::set<ListedBlock>;

struct PoolSegment;

// The memory of a stream in a pool for small requests, or for large ones.
struct StreamPool {
    StreamPool(PoolId pool, Stream owner, bool small, std::pmr::memory_resource* memory)
        : id(pool), stream(owner), is_small(small), free(memory), unmapped(memory) {}

    PoolId id;
    Stream stream;
    bool is_small;
    BlockList free;
    BlockList unmapped;  // entries have 0 bytes, so their order is by address
};

// A range of a segment, linked with the blocks before and behind it in the segment.
struct PoolBlock {
    Address address = 0;
    std::size_t bytes = 0;
    PoolBlock* before = nullptr;
    PoolBlock* behind = nullptr;
    StreamPool* pool = nullptr;
    PoolSegment* segment = nullptr;
    OnlineState state = OnlineState::free;
    std::size_t requested = 0;
    std::size_t pending = 0;      // number of streams whose work the freed block waits for
    std::vector<Stream> used_on;  // other streams that used the block
    std::uint64_t listed_at = 0;  // number of searches in its kind of pool when it was listed
    BlockList::iterator place;    // the entry of a free or unmapped block in its list

    Address end() const { return address + bytes; }
};

// A range of addresses of one pool.
struct PoolSegment {
    Address address = 0;
    std::size_t bytes = 0;
    PoolBlock* first = nullptr;
    std::vector<Pages> pages;  // of an expandable segment, by their places; 0 for no page
};

}  // namespace gapless::runtime
