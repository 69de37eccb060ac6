// GMLake's primitive and stitched blocks, and the ordered lists in which they are found.
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

// An entry of a list: a block, with copies of the fields that order the list.
struct ListedGmlakeBlock {
    std::size_t bytes;
    std::uint64_t number;
    GmlakeBlock* block;
    auto operator<=>(const ListedGmlakeBlock&) const = default;
};
// Ordered by size; among blocks of one size, the oldest first.
using GmlakeList = std::pmr::set<ListedGmlakeBlock>;

// The blocks of one stream.
struct GmlakePool {
    GmlakePool(Stream owner, std::pmr::memory_resource* memory)
        : stream(owner), inactive(memory), stitched(memory) {}

    Stream stream;
    GmlakeList inactive;  // primitive blocks
    GmlakeList stitched;  // all stitched blocks, active or not
};

// A range of addresses with memory behind every byte. A primitive block owns its chunks. A stitched
// block maps the chunks of several primitive blocks a second time.
struct GmlakeBlock {
    Address address = 0;
    std::size_t bytes = 0;
    std::uint64_t number = 0;  // in the order in which blocks are made
    GmlakePool* pool = nullptr;
    std::vector<Pages> chunks;  // of a primitive block, in the order of addresses
    // The primitive blocks of a stitched block, in any order; of a primitive block itself alone.
    std::vector<GmlakeBlock*> parts;
    std::vector<GmlakeBlock*> stitched;  // the stitched blocks that contain this primitive one
    // The block that was handed out and holds this block's memory; null if there is none. For a
    // primitive block: itself or a stitched block. For a stitched block: itself.
    GmlakeBlock* holder = nullptr;
    std::size_t requested = 0;
    std::size_t pending = 0;      // number of streams whose work the freed block waits for
    std::vector<Stream> used_on;  // other streams that used the block
    // The entry in its pool's list; valid for a stitched block or an inactive primitive one.
    GmlakeList::iterator place;
    // The entry of a stitched block in the list of all, by their last use.
    std::list<GmlakeBlock*>::iterator turn;

    bool is_primitive() const { return !chunks.empty(); }
};

}  // namespace gapless::runtime
