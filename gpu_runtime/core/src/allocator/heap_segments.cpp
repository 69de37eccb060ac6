#include "allocator/heap_segments.h"

#include <algorithm>

namespace gapless::runtime {

namespace {

GaplessBlock seen_from_outside(const Block& block) {
    const bool is_used = block.state == BlockState::used;
    return {.address = block.address,
            .bytes = block.bytes,
            .requested_bytes = is_used ? block.requested : 0,
            .stream = block.stream == kNoStream ? 0 : block.stream,
            .device = 0,
            .other_streams = static_cast<std::int32_t>(block.used_on.size()),
            .is_allocated = is_used,
            .is_active = is_used || block.state == BlockState::withheld};
}

// Adds one segment for each stretch that has memory throughout.
void add_segments(const BlockHeap& heap, const Extent& extent,
                  std::vector<SegmentOfBlocks>& segments) {
    bool is_behind_hole = true;
    for (const Block* block = heap.first_of(extent); block != nullptr; block = block->behind) {
        if (!heap.has_memory(block)) {
            is_behind_hole = true;
            continue;
        }
        const GaplessBlock seen = seen_from_outside(*block);
        if (is_behind_hole) {
            segments.push_back({{.address = block->address,
                                 .bytes = 0,
                                 .stream = heap.is_in_arena(*block) ? 0 : seen.stream,
                                 .device = 0,
                                 .is_plain = extent.is_plain()},
                                {},
                                heap.is_in_arena(*block)});
            is_behind_hole = false;
        }
        segments.back().segment.bytes += block->bytes;
        segments.back().blocks.push_back(seen);
    }
}

}  // namespace

std::vector<SegmentOfBlocks> segments_of(const BlockHeap& heap) {
    std::vector<SegmentOfBlocks> segments;
    for (const Extent& extent : heap.extents()) add_segments(heap, extent, segments);
    return segments;
}

std::optional<GaplessSegment> segment_of(const BlockHeap& heap, Address address) {
    const Extent* extent = heap.extent_of(address);
    if (extent == nullptr) return std::nullopt;
    std::vector<SegmentOfBlocks> segments;
    add_segments(heap, *extent, segments);
    for (const SegmentOfBlocks& found : segments) {
        if (address - found.segment.address < found.segment.bytes) return found.segment;
    }
    return std::nullopt;
}

std::optional<GaplessBlock> block_of(const BlockHeap& heap, Address address) {
    const Extent* extent = heap.extent_of(address);
    if (extent == nullptr) return std::nullopt;
    for (const Block* block = heap.first_of(*extent); block != nullptr; block = block->behind) {
        if (address - block->address >= block->bytes) continue;
        if (!heap.has_memory(block)) return std::nullopt;
        return seen_from_outside(*block);
    }
    return std::nullopt;
}

std::int64_t offset_in_arena(const BlockHeap& heap, Address address) {
    const Extent* extent = heap.extent_of(address);
    if (extent == nullptr || !heap.is_in_arena(*heap.first_of(*extent))) return -1;
    return static_cast<std::int64_t>(address - extent->begin());
}

}  // namespace gapless::runtime
