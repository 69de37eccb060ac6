// The invariants of the heap.
#include <algorithm>

#include "allocator/block_heap.h"
#include "device/invariant.h"

namespace gapless::runtime {

void BlockHeap::check() const {
    // Holes may reach far beyond all memory.
    const auto for_each_page = [&](const Block& block, const auto& check_page) {
        const Extent& extent = *block.extent;
        Address at = extent.begin() + (block.address - extent.begin()) / page_bytes_ * page_bytes_;
        const bool is_hole = block.state == BlockState::hole || block.state == BlockState::closed;
        const Address end = is_hole ? std::min(block.end(), extent.mapped_end()) : block.end();
        for (; at < end; at += page_bytes_) check_page(at);
    };
    std::size_t mapped = 0, vacated = 0, retired = 0, current = 0, used = 0, free = 0, holes = 0;
    for (const Extent& extent : extents_) {
        Address at = extent.begin();
        for (const Block* block = first_.at(&extent); block != nullptr; block = block->behind) {
            require(block->extent == &extent && block->address == at, "blocks lie side by side");
            require(block->bytes > 0, "a block has bytes");
            at = block->end();
            if (block->behind != nullptr) {
                require(block->behind->before == block, "neighbours know each other");
            }
            const bool is_latest = std::ranges::any_of(
                heaps_, [&](const auto& heap) { return heap.second.latest == block; });
            switch (block->state) {
                case BlockState::used:
                    require(used_.find(block->address) == block, "a block in use is found");
                    ++used;
                    break;
                case BlockState::free:
                    ++free;
                    if (is_latest) break;
                    if (is_in_arena(*block)) {
                        const auto found = arena_free_.find(block->address);
                        require(found != arena_free_.end() && found->block == block,
                                "a free block of the arena is found by its address");
                        const auto heap = heaps_.find({block->stream, false});
                        require((heap != heaps_.end() && heap->second.in_arena.contains(
                                                             sized(const_cast<Block&>(*block)))) ==
                                    is_arena_open_,
                                "a free block of the arena is found by its size while it is open");
                    } else {
                        require(block->marks.empty(), "only blocks of the arena have marks");
                        require(heaps_.at({block->stream, extent.is_whole()})
                                    .free.contains(sized(const_cast<Block&>(*block))),
                                "a free block is found by its size");
                    }
                    if (block->behind != nullptr && is_one_range(*block, *block->behind)) {
                        require(std::ranges::any_of(heaps_,
                                                    [&](const auto& heap) {
                                                        return heap.second.latest == block->behind;
                                                    }),
                                "no two free ranges touch");
                    }
                    break;
                case BlockState::withheld:
                    require(withheld_.contains(const_cast<Block*>(block)),
                            "a withheld block waits for somebody");
                    break;
                case BlockState::leaving:
                    break;
                case BlockState::retired:
                    require(std::ranges::find(retired_, block) != retired_.end(),
                            "a retired block is found");
                    retired += block->bytes;
                    break;
                case BlockState::paused:
                    require(is_paused(*block), "the memory of a paused block is paused");
                    break;
                case BlockState::vacated:
                    require(vacated_.contains(block->address), "a vacated block is found");
                    for_each_page(*block, [&](Address address) {
                        const auto now = current_.find(extent.frame_at(address));
                        require(extent.frame_at(address) != kNoFrame, "an old mapping is there");
                        require(now != current_.end() && now->second != address,
                                "the frames of a vacated block are elsewhere");
                    });
                    vacated += block->bytes;
                    continue;
                case BlockState::closed:
                    require(extent.is_closed(), "closed holes lie in a former arena");
                    for_each_page(*block, [&](Address address) {
                        require(extent.frame_at(address) == kNoFrame, "a hole has no memory");
                    });
                    continue;
                case BlockState::hole:
                    require(!extent.is_plain(), "a plain extent has no holes");
                    for_each_page(*block, [&](Address address) {
                        require(extent.frame_at(address) == kNoFrame, "a hole has no memory");
                    });
                    if (is_in_arena(*block)) {
                        require(arena_holes_.contains(block->address), "a hole is found");
                    } else {
                        require(heaps_.at({block->stream, extent.is_whole()})
                                    .holes.contains(sized(const_cast<Block&>(*block))),
                                "a hole is found");
                    }
                    ++holes;
                    continue;
            }
            if (!extent.is_plain() && !is_paused(*block)) {
                for_each_page(*block, [&](Address address) {
                    require(extent.frame_at(address) != kNoFrame, "a block has memory");
                });
            }
        }
        require(at == extent.end(), "blocks cover their extent");
        if (extent.is_plain()) mapped += extent.bytes();
        for (Address address = extent.begin(); !extent.is_plain() && address < extent.mapped_end();
             address += page_bytes_) {
            if (extent.frame_at(address) == kNoFrame) continue;
            mapped += page_bytes_;
            const auto now = current_.find(extent.frame_at(address));
            if (now != current_.end() && now->second == address) ++current;
        }
    }
    require(used == used_.size(), "as many blocks are in use as are found");
    require(gathered_.empty(), "frames move within a call");
    require(current == current_.size(), "a frame is in use at an address");
    require(vacated == vacated_bytes_, "old mappings are counted");
    require(retired == retired_bytes_, "retired blocks are counted");
    require(mapped - vacated + spare_.size() * page_bytes_ == reserved_bytes_,
            "reserved is what is mapped, or spare");
    std::size_t indexed = arena_free_.size(), indexed_holes = arena_holes_.size();
    for (const auto& [stream, heap] : heaps_) {
        indexed += heap.free.size() + (heap.latest != nullptr ? 1 : 0);
        indexed_holes += heap.holes.size();
        require(heap.tail == nullptr || heap.holes.contains(sized(*heap.tail)),
                "a heap grows at a hole");
    }
    require(indexed == free && indexed_holes == holes,
            "the indexes hold what is free, and holes, and nothing else");
}

}  // namespace gapless::runtime
