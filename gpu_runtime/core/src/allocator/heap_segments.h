// The heap as seen from outside: its segments and blocks, in the form of PyTorch's snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/block_heap.h"
#include "allocator/serving_allocator.h"

namespace gapless::runtime {

std::vector<SegmentOfBlocks> segments_of(const BlockHeap& heap);
// The segment or the block in which an address lies, if it has memory.
std::optional<GaplessSegment> segment_of(const BlockHeap& heap, Address address);
std::optional<GaplessBlock> block_of(const BlockHeap& heap, Address address);
// Returns the offset of an address in the arena, or -1 outside of it.
std::int64_t offset_in_arena(const BlockHeap& heap, Address address);

}  // namespace gapless::runtime
