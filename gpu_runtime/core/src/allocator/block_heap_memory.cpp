// How the heap unmaps idle frames and gives them back.
#include <algorithm>
#include <exception>
#include <limits>

#include "allocator/block_heap.h"

namespace gapless::runtime {

BlockHeap::Leaving BlockHeap::take_idle(std::size_t arena_kept) {
    return take_idle(std::numeric_limits<std::size_t>::max(), arena_kept, Range{});
}

BlockHeap::Leaving BlockHeap::take_idle(std::size_t bytes, std::size_t arena_kept) {
    return take_idle(bytes, arena_kept, Range{});
}

BlockHeap::Leaving BlockHeap::take_idle_for(std::size_t requested, Stream stream,
                                            Placement placement, std::size_t arena_kept) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    if (is_plain_) {
        const std::size_t missing = missing_for(bytes, stream, placement);
        return take_idle(missing - std::min(missing, spare_bytes_), arena_kept, Range{});
    }
    StreamHeap& heap = heap_of(stream);
    Gap gap = gap_for(heap, bytes, placement);
    const Block* const tail = heap.tail;
    // The range that grows at the tail must not lose frames at its other end.
    if (gap.is_at_tail() && tail != nullptr && tail->bytes >= gap.missing &&
        free_before(tail) > 0) {
        gap.range = {tail->before->address, tail->before->end()};
    }
    return take_idle(gap.missing - std::min(gap.missing, spare_bytes_), arena_kept, gap.range);
}

BlockHeap::Leaving BlockHeap::take_idle_for_place(std::size_t offset, std::size_t bytes) {
    const std::size_t missing = arena_missing(offset, bytes);
    const Address begin = arena_->begin() + offset;
    return take_idle(missing - std::min(missing, spare_bytes_), 0, {begin, begin + bytes});
}

BlockHeap::Leaving BlockHeap::take_idle(std::size_t bytes, std::size_t arena_kept,
                                        const Range& kept) {
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    Leaving leaving;
    if (is_capturing()) return leaving;
    if (is_plain_) {
        take_idle_extents(leaving, bytes, arena_kept);
    } else {
        take_idle_frames(leaving, bytes, arena_kept, kept);
    }
    if (leaving.runs.empty()) return leaving;
    try {
        // See Note [Streams that nobody told of]. Streams of other devices need marks of their own.
        for (const Stream stream : std::vector(known_streams_)) {
            try {
                leaving.marks.push_back(mark(stream));
            } catch (const StreamIsGone&) {
                // The wait for the whole device covers a destroyed stream's work.
            }
        }
    } catch (...) {
        put_back(leaving);
        throw;
    }
    return leaving;
}

// While a graph is captured, the host cannot wait for the device.
bool BlockHeap::is_capturing() const {
    return std::ranges::any_of(known_streams_,
                               [&](Stream stream) { return memory_.is_captured(stream); });
}

void BlockHeap::take_idle_frames(Leaving& leaving, std::size_t bytes, std::size_t arena_kept,
                                 const Range& kept) {
    const Address first_idle =
        arena_ == nullptr ? 0 : arena_->begin() + round_up(arena_kept, page_bytes_);
    for (const Idle& idle : idle_ranges(first_idle, kept)) {
        if (leaving.bytes >= bytes) break;
        const auto [first, last] =
            idle.first->extent->whole_frames(idle.begin, idle.end, bytes - leaving.bytes);
        if (first < last) take(leaving, idle.first, first, last);
    }
}

// Idle ranges outside of the arena come first, largest first. Ranges of the arena come last, only
// those behind `arena_kept`, by rising address. Taking them from the end of the arena moved twice
// as many frames in steps that grow, because such a step needs places behind the arena's end. A
// frame may span adjacent blocks with different last users.
std::vector<BlockHeap::Idle> BlockHeap::idle_ranges(Address arena_kept, const Range& kept) {
    std::vector<Idle> idle;
    for (auto& [stream, heap] : heaps_) {
        for (auto entry = heap.free.rbegin();
             entry != heap.free.rend() && entry->bytes >= page_bytes_; ++entry) {
            Block* const block = entry->block;
            if (block->address < kept.begin || block->address >= kept.end) {
                idle.push_back({block, block->address, block->end()});
            }
        }
    }
    std::ranges::sort(idle, [](const Idle& one, const Idle& other) {
        return sized(*one.first) > sized(*other.first);
    });
    const std::size_t outside = idle.size();
    for (auto entry = arena_free_.rbegin();
         entry != arena_free_.rend() && entry->block->end() > arena_kept; ++entry) {
        Block* const block = entry->block;
        if (idle.size() > outside && block->end() == idle.back().begin) {
            idle.back().first = block;
            idle.back().begin = block->address;
        } else {
            idle.push_back({block, block->address, block->end()});
        }
    }
    std::vector<Idle> before;
    for (std::size_t i = outside; i < idle.size(); ++i) {
        Idle& range = idle[i];
        range.begin = std::max(range.begin, arena_kept);
        if (kept.end <= range.begin || kept.begin >= range.end) continue;
        if (kept.begin > range.begin) before.push_back({range.first, range.begin, kept.begin});
        range.begin = std::min(kept.end, range.end);
    }
    idle.insert(idle.end(), before.begin(), before.end());
    std::ranges::sort(idle.begin() + static_cast<std::ptrdiff_t>(outside), idle.end(), {},
                      &Idle::begin);
    return idle;
}

void BlockHeap::take_idle_extents(Leaving& leaving, std::size_t bytes, std::size_t arena_kept) {
    for (const Extent& extent : extents_) {
        if (leaving.bytes >= bytes) break;
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
    leaving.frames += block->extent->frames_within(first, last).size();
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
    const std::vector<Frame> frames = block->extent->unmap(block->address, block->end());
    spare_.insert(spare_.end(), frames.begin(), frames.end());
    spare_bytes_ += block->bytes;
    if (is_in_arena(*block)) arena_bytes_ -= block->bytes;
    add_hole(*block);
}

// A spare frame may still be mapped, if the device refused both to make it accessible and to unmap
// it.
void BlockHeap::settle_extents() {
    for (Extent& extent : extents_) extent.settle();
}

// Splits spare frames: releases them to the device and creates as many single pages.
void BlockHeap::split_spare() {
    settle_extents();
    std::size_t pages = 0;
    for (auto frame = spare_.begin(); frame != spare_.end();) {
        if (frame->bytes == page_bytes_) {
            ++frame;
            continue;
        }
        memory_.release_pages(frame->pages);
        pages += frame->bytes / page_bytes_;
        spare_bytes_ -= frame->bytes;
        reserved_bytes_ -= frame->bytes;
        frame = spare_.erase(frame);
    }
    for (; pages > 0; --pages) {
        spare_.push_back({memory_.create_pages(page_bytes_), page_bytes_});
        spare_bytes_ += page_bytes_;
        reserved_bytes_ += page_bytes_;
    }
}

void BlockHeap::release_spare() {
    settle_extents();
    while (!spare_.empty()) {
        memory_.release_pages(spare_.back().pages);
        spare_bytes_ -= spare_.back().bytes;
        reserved_bytes_ -= spare_.back().bytes;
        spare_.pop_back();
    }
}

}  // namespace gapless::runtime
