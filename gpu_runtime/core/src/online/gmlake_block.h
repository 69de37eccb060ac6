// The blocks of virtual memory stitching, and the lists that they are found in.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory_resource>
#include <set>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

struct GmlakeBlock;

// With what is compared beside the block, which need not be looked at.
struct ListedGmlakeBlock {
    std::size_t bytes;
    std::uint64_t number;
    GmlakeBlock* block;
    auto operator<=>(const ListedGmlakeBlock&) const = default;
};
// The smallest first, of one size the oldest.
using GmlakeList = std::pmr::set<ListedGmlakeBlock>;

// What a stream has.
struct GmlakePool {
    GmlakePool(Stream owner, std::pmr::memory_resource* memory)
        : stream(owner), inactive(memory), stitched(memory) {}

    Stream stream;
    GmlakeList inactive;  // primitive blocks
    GmlakeList stitched;  // all of them
};

// A range of addresses, mapped as a whole. A primitive block has chunks of its own; a stitched one
// shows those of primitive blocks a second time.
struct GmlakeBlock {
    Address address = 0;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  // in the order in which blocks are made
    GmlakePool* pool = nullptr;
    std::vector<Pages> chunks;           // of a primitive block
    std::vector<GmlakeBlock*> parts;     // of a stitched block, in any order, or itself
    std::vector<GmlakeBlock*> stitched;  // of which a primitive block is a part
    // The block that was handed out with this one's memory, which may be this one; null for none.
    // Of a stitched block it is itself or null.
    GmlakeBlock* holder = nullptr;
    std::size_t requested = 0;
    std::size_t pending = 0;                 // what it waits for since it was freed
    std::vector<Stream> used_on;             // beside its own
    GmlakeList::iterator place;              // of a stitched block, or of an inactive primitive one
    std::list<GmlakeBlock*>::iterator turn;  // of a stitched block, by its last use

    bool is_primitive() const { return !chunks.empty(); }
};

}  // namespace gapless::runtime
