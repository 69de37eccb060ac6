// How the heap unmaps idle frames and gives them back.
#include <algorithm>
#include <exception>
#include <utility>

#include "allocator/block_heap.h"

namespace gapless::runtime {

BlockHeap::Leaving BlockHeap::take_idle(std::size_t arena_kept) {
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    Leaving leaving;
    if (is_capturing()) return leaving;
    if (is_plain_) {
        take_idle_extents(leaving, arena_kept);
    } else {
        for (const Idle& idle : idle_ranges({arena_range(0, arena_kept)})) {
            const auto [first, last] =
                idle.first->extent->whole_frames(idle.begin, idle.end, idle.end - idle.begin);
            if (first < last) take(leaving, idle.first, first, last);
        }
        take_shared_frames(leaving);
    }
    leaving.generation = generation_++;
    if (leaving.runs.empty() && !has_old_mappings() && closed_ < 0) return leaving;
    try {
        leaving.marks = known_marks();
    } catch (...) {
        put_back(leaving);
        throw;
    }
    return leaving;
}

// Takes the frames of former arenas in which several streams have free ranges.
void BlockHeap::take_shared_frames(Leaving& leaving) {
    for (const Extent& extent : extents_) {
        if (!extent.is_closed()) continue;
        for (Block *first = first_.at(&extent), *behind = nullptr; first != nullptr;
             first = behind) {
            behind = first->behind;
            if (first->state != BlockState::free) continue;
            Address end = first->end();
            for (; behind != nullptr && behind->state == BlockState::free; behind = behind->behind)
                end = behind->end();
            const auto [begin, last] =
                extent.whole_frames(first->address, end, end - first->address);
            if (begin < last) take(leaving, first, begin, last);
        }
    }
}

// See Note [Streams that nobody told of]. Streams of other devices need marks of their own.
StreamMarks BlockHeap::known_marks() {
    StreamMarks marks;
    for (const Stream stream : known_streams()) {
        try {
            marks.push_back(mark(stream));
        } catch (const StreamIsGone&) {
            // The wait for the whole device covers a destroyed stream's work.
        }
    }
    return marks;
}

// While a graph is captured, the host cannot wait for the device.
bool BlockHeap::is_capturing() {
    return std::ranges::any_of(known_streams(),
                               [&](Stream stream) { return memory_.is_captured(stream); });
}

// Idle ranges outside of the arena come first, largest first. Ranges of the arena come last, by
// rising address. Taking them from the end of the arena moved twice as many frames in steps that
// grow, because such a step needs places behind the arena's end. A frame may span adjacent blocks
// with different last users.
std::vector<BlockHeap::Idle> BlockHeap::idle_ranges(std::vector<Range> kept) {
    std::ranges::sort(kept, {}, &Range::begin);
    std::vector<Idle> idle;
    for (auto& [stream, heap] : heaps_) {
        for (auto entry = heap.free.rbegin();
             entry != heap.free.rend() && entry->bytes >= page_bytes_; ++entry) {
            add_idle(idle, {entry->block, entry->address, entry->block->end()}, kept);
        }
    }
    std::ranges::sort(idle, [](const Idle& one, const Idle& other) {
        return std::pair(one.end - one.begin, one.begin) >
               std::pair(other.end - other.begin, other.begin);
    });
    for (auto entry = arena_free_.begin(); entry != arena_free_.end();) {
        Block* const first = entry->block;
        Address end = first->end();
        for (++entry; entry != arena_free_.end() && entry->address == end; ++entry) {
            end = entry->block->end();
        }
        add_idle(idle, {first, first->address, end}, kept);
    }
    return idle;
}

// Adds the parts of a range that are not kept.
void BlockHeap::add_idle(std::vector<Idle>& idle, Idle range, const std::vector<Range>& kept) {
    for (const Range& part : kept) {
        if (part.end <= range.begin) continue;
        if (part.begin >= range.end) break;
        if (part.begin > range.begin) idle.push_back({range.first, range.begin, part.begin});
        range.begin = std::min(part.end, range.end);
    }
    if (range.begin < range.end) idle.push_back(range);
}

void BlockHeap::take_idle_extents(Leaving& leaving, std::size_t arena_kept) {
    for (const Extent& extent : extents_) {
        if (&extent == arena_ && arena_kept > 0) continue;
        bool is_idle = true;
        for (const Block* block = first_.at(&extent); block != nullptr; block = block->behind) {
            is_idle = is_idle && block->state == BlockState::free;
        }
        if (is_idle) take(leaving, first_.at(&extent), extent.begin(), extent.end());
    }
}

// Takes the bytes between two addresses; `block` and the blocks behind it are free.
void BlockHeap::take(Leaving& leaving, Block* block, Address first, Address last) {
    while (block->end() <= first) block = block->behind;
    unindex(*block);
    if (block->address < first) {
        Block* const taken = split(*block, first - block->address);
        index(*block);
        block = taken;
    }
    Leaving::Run run{block, block};
    for (;; block = block->behind, unindex(*block)) {
        if (block->end() > last) index(*split(*block, last - block->address));
        block->state = BlockState::leaving;
        run.last = block;
        if (block->end() == last) break;
    }
    leaving.runs.push_back(run);
    leaving.bytes += last - first;
}

void BlockHeap::put_back(const Leaving& leaving) {
    for (const Leaving::Run& run : leaving.runs) {
        for (Block *block = run.first, *next = nullptr; block != nullptr; block = next) {
            next = block == run.last ? nullptr : block->behind;
            block->state = BlockState::free;
            add_free(*block);
        }
    }
}

void BlockHeap::await(const Leaving& leaving) const {
    memory_.synchronize();
    for (const auto& mark : leaving.marks) memory_.await(mark->event());
}

void BlockHeap::finish(const Leaving& leaving) {
    std::exception_ptr refused;
    try {
        unmap_old(leaving.generation);
    } catch (...) {
        refused = std::current_exception();
    }
    for (const Leaving::Run& run : leaving.runs) {
        // All work in these blocks is done, so they lose their marks and owners.
        Block* block = run.first;
        block->marks.clear();
        if (is_in_arena(*block)) block->stream = kNoStream;
        for (const Address end = run.last->end(); block->end() < end;) absorb(*block);
        try {
            if (refused == nullptr) {
                take_out(block);
                continue;
            }
        } catch (...) {
            refused = std::current_exception();
        }
        // The device did not unmap this run.
        block->state = BlockState::free;
        add_free(*block);
    }
    if (refused != nullptr) std::rethrow_exception(refused);
}

// Unmaps the memory of a block. If the device refuses, all of it stays mapped.
void BlockHeap::take_out(Block* block) {
    if (block->extent->is_plain()) {
        Extent* const extent = block->extent;
        memory_.release_plain(extent->begin());
        reserved_bytes_ -= extent->bytes();
        --stretches_;
        if (extent == arena_) {
            arena_ = nullptr;
            arena_bytes_ = 0;
        }
        extent_at_.erase(extent->begin());
        first_.erase(extent);
        drop(*block);
        extents_.remove_if([&](const Extent& each) { return &each == extent; });
        return;
    }
    for (const Pages frame : unmap_frames(*block->extent, block->address, block->end())) {
        current_.erase(frame);
    }
    loses_memory(*block);
    if (is_in_arena(*block)) arena_bytes_ -= block->bytes;
    add_hole(*block);
}

// A spare frame may still be mapped, if the device refused both to make it accessible and to unmap
// it.
void BlockHeap::settle_extents() {
    for (Extent& extent : extents_) extent.settle();
}

void BlockHeap::release_spare() {
    settle_extents();
    while (!spare_.empty()) {
        memory_.release_pages(spare_.back());
        reserved_bytes_ -= page_bytes_;
        spare_.pop_back();
    }
}

}  // namespace gapless::runtime
