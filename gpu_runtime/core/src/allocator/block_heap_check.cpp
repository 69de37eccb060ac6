// The invariants of the heap.
#include <algorithm>
#include <stdexcept>

#include "allocator/block_heap.h"

namespace gapless::runtime {

void BlockHeap::check() const {
    const auto require = [](bool holds, const char* rule) {
        if (!holds) throw std::logic_error(rule);
    };
    std::size_t mapped = 0, vacated = 0, current = 0, used = 0, free = 0, holes = 0;
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
                    } else {
                        require(block->marks.empty(), "only blocks of the arena have marks");
                        require(heaps_.at(block->stream)
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
                case BlockState::paused:
                    require(is_paused(*block), "the memory of a paused block is paused");
                    break;
                case BlockState::vacated:
                    require(vacated_.contains(block->address), "a vacated block is found");
                    for (const auto& [address, bytes] :
                         extent.frames_within(block->address, block->end())) {
                        const auto now = current_.find(extent.frames().at(address).pages);
                        require(now == current_.end() || now->second != address,
                                "the frames of a vacated block are elsewhere");
                    }
                    vacated += block->bytes;
                    continue;
                case BlockState::hole:
                    require(!extent.is_plain(), "a plain extent has no holes");
                    require(extent.frames_within(block->address, block->end()).empty(),
                            "nothing is mapped in a hole");
                    if (is_in_arena(*block)) {
                        require(arena_holes_.contains(block->address), "a hole is found");
                    } else {
                        require(heaps_.at(block->stream)
                                    .holes.contains(sized(const_cast<Block&>(*block))),
                                "a hole is found");
                    }
                    ++holes;
                    continue;
            }
            if (!extent.is_plain() && !is_paused(*block)) {
                auto frame = extent.frames().upper_bound(block->address);
                require(frame != extent.frames().begin(), "memory is mapped behind a block");
                Address covered = std::prev(frame)->first + std::prev(frame)->second.bytes;
                for (; covered < block->end(); ++frame) {
                    require(frame != extent.frames().end() && frame->first == covered,
                            "memory is mapped behind a block");
                    covered += frame->second.bytes;
                }
            }
        }
        require(at == extent.end(), "blocks cover their extent");
        if (extent.is_plain()) mapped += extent.bytes();
        for (const auto& [address, frame] : extent.frames()) {
            mapped += frame.bytes;
            const auto now = current_.find(frame.pages);
            if (now != current_.end() && now->second == address) ++current;
        }
    }
    require(used == used_.size(), "as many blocks are in use as are found");
    require(gathered_.empty(), "frames move within a call");
    require(current == current_.size(), "a frame is in use at an address");
    require(vacated == vacated_bytes_, "old mappings are counted");
    std::size_t retired = 0;
    for (const auto& [generation, frame] : retired_) retired += frame.bytes;
    require(mapped - vacated + spare_bytes_ + retired == reserved_bytes_,
            "reserved is what is mapped, spare or retired");
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
