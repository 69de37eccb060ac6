// How memory of blocks in use goes back to the device, and comes again.
#include <iterator>
#include <memory>
#include <utility>

#include "allocator/block_heap.h"

namespace gapless::runtime {

// Note [Paused memory]
// ~~~~~~~~~~~~~~~~~~~~
// Rationale. Programs that generate and train in turn on one GPU need the weights of one part while
// the other is idle. Tensors and captured graphs know addresses, so these must stay.
// Approach. A pause waits for the device and gives idle memory back. All other frames are copied to
// the host if wanted, unmapped, and released. Their blocks keep their state and their addresses. A
// *run* is a stretch of adjacent blocks without memory. A block of a run that is freed meanwhile is
// in state `paused`, in no index, so no request gets it. New requests get new memory. A resume
// creates frames at the same addresses, as far as a block in use needs them; the
// rest of a run becomes holes. While one part is copied, the next one is mapped, because a GPU
// takes 175 ms to map 10 GiB by frames of 2 MiB and 200 ms to copy them. Blocks change their state
// only when nothing can fail any more. After an exception the new frames go back, and the kept
// contents are still there. The pinned memory of the host stays for the next pause: a host took 4 s
// to pin 10 GiB, and 1 s to unpin them.
// Limits. An access to a paused block is an illegal access. If the device refuses to take new
// frames back, they stay mapped until the next pause or resume.

namespace {

// Bytes that are mapped before their copy begins. A guess: a bus needs 5 ms for them.
constexpr std::size_t kRowBytes = std::size_t{256} << 20;

}  // namespace

bool BlockHeap::is_paused(const Block& block) const {
    const auto behind = paused_.upper_bound(block.address);
    return behind != paused_.begin() && block.address < std::prev(behind)->second.end;
}

PausedRuns BlockHeap::pausable_runs(bool keeps) {
    reuse_retired();
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    PausedRuns runs;
    std::size_t bytes = 0;
    for (const Extent& extent : extents_) {
        PausedRun* open = nullptr;
        for (Block* block = first_.at(&extent); block != nullptr; block = block->behind) {
            // Frames that are leaving belong to another thread, which waits for the device.
            if (!has_memory(block) || block->state == BlockState::leaving) {
                open = nullptr;
                continue;
            }
            if (open == nullptr) open = &(runs[block->address] = {block, 0, {}, bytes});
            open->end = block->end();
            bytes += block->bytes;
        }
    }
    if (!keeps || bytes == 0) return runs;
    // Copies of an earlier pause may still be in it.
    const bool is_free = host_.use_count() == 1;
    if (!is_free || host_->bytes() < bytes) {
        host_ = nullptr;
        host_ = std::make_shared<const HostMemory>(memory_, bytes);
    }
    for (auto& [begin, run] : runs) {
        run.copy = host_;
        run.kept += host_->begin();
        memory_.copy(run.kept, begin, run.end - begin);
    }
    memory_.await_copies();
    return runs;
}

void BlockHeap::release_host() {
    if (host_.use_count() == 1) host_ = nullptr;
}

void BlockHeap::give_up(PausedRuns runs) {
    withdraw();
    while (!runs.empty()) {
        auto& [begin, run] = *runs.begin();
        for (const Pages frame : unmap_frames(*run.first->extent, begin, run.end)) {
            current_.erase(frame);
        }
        if (is_in_arena(*run.first)) arena_bytes_ -= run.end - begin;
        count_stretches(run, -1);
        for (Block* block = run.first; block != nullptr && block->address < run.end;
             block = block->behind) {
            if (block->state != BlockState::free) continue;
            unindex(*block);
            block->marks.clear();
            block->state = BlockState::paused;
        }
        paused_.insert(runs.extract(runs.begin()));
    }
    release_spare();
}

// Unmaps all frames between two addresses, and makes them spare.
std::vector<Pages> BlockHeap::unmap_frames(Extent& extent, Address begin, Address end) {
    std::vector<Pages> frames = extent.unmap(begin, end);
    spare_.insert(spare_.end(), frames.begin(), frames.end());
    return frames;
}

// A run gets or loses memory: counts the ranges that have memory.
void BlockHeap::count_stretches(const PausedRun& run, int change) {
    const Block* last = run.first;
    while (last->end() < run.end) last = last->behind;
    stretches_ += change * (1 - has_memory(run.first->before) - has_memory(last->behind));
}

// Returns true if a block in use has bytes between two addresses. `block` is the first one that may
// have; it moves on.
bool BlockHeap::is_needed(const Block*& block, Address begin, Address end) const {
    while (block->end() <= begin) block = block->behind;
    for (const Block* each = block; each != nullptr && each->address < end; each = each->behind) {
        if (each->state != BlockState::paused) return true;
    }
    return false;
}

void BlockHeap::resume() {
    withdraw();
    try {
        for (const auto& [begin, run] : paused_) restore(begin, run);
        memory_.await_copies();
    } catch (...) {
        try {
            withdraw();
        } catch (const DeviceCallError&) {
            // The next pause or resume tries again.
        }
        throw;
    }
    while (!paused_.empty()) {
        const auto run = paused_.extract(paused_.begin());
        end_pause(run.key(), run.mapped());
    }
}

// Maps the frames of a run that blocks in use need, and begins to copy the contents.
void BlockHeap::restore(Address begin, const PausedRun& run) {
    Extent& extent = *run.first->extent;
    const Block* block = run.first;
    std::vector<Pages> row;
    Address row_begin = begin;
    const auto finish_row = [&] {
        if (row.empty()) return;
        const std::size_t bytes = row.size() * page_bytes_;
        extent.map(row_begin, row);
        row.clear();
        if (run.copy == nullptr) return;
        memory_.copy(row_begin, run.kept + (row_begin - begin), bytes);
    };
    try {
        for (Address at = begin; at < run.end; at += page_bytes_) {
            const bool is_wanted = is_needed(block, at, at + page_bytes_);
            if (!is_wanted || at - row_begin >= kRowBytes) finish_row();
            if (!is_wanted) continue;
            if (row.empty()) row_begin = at;
            row.push_back(new_frame());
        }
        finish_row();
    } catch (...) {
        spare_.insert(spare_.end(), row.begin(), row.end());
        throw;
    }
}

// Gives the frames of a resume that failed back to the device.
void BlockHeap::withdraw() {
    if (paused_.empty()) return;
    memory_.await_copies();
    for (const auto& [begin, run] : paused_) {
        Extent& extent = *run.first->extent;
        for (Address at = begin; at < run.end; at += page_bytes_) {
            if (extent.frame_at(at) != kNoFrame) unmap_frames(extent, at, at + page_bytes_);
        }
    }
    release_spare();
}

// The blocks of a run have memory again where its frames are mapped. The rest becomes holes.
void BlockHeap::end_pause(Address begin, const PausedRun& run) {
    const Extent& extent = *run.first->extent;
    count_stretches(run, 1);
    for (Block *block = run.first, *next = nullptr; block != nullptr; block = next) {
        next = block->end() < run.end ? block->behind : nullptr;
        if (block->state != BlockState::paused) continue;
        block->state = BlockState::free;
        // All work in this block was done before the pause.
        if (is_in_arena(*block)) block->stream = kNoStream;
        add_free(*block);
    }
    Block* block = first_.at(&extent);
    for (Address at = begin; at < run.end; at += page_bytes_) {
        const Pages frame = extent.frame_at(at);
        if (frame != kNoFrame) {
            current_[frame] = at;
            if (&extent == arena_) arena_bytes_ += page_bytes_;
            continue;
        }
        Leaving hole;
        take(hole, block, at, at + page_bytes_);
        block = hole.runs.front().first;
        while (block->bytes < page_bytes_) absorb(*block);
        loses_memory(*block);
        Block* const before = block->before;
        add_hole(*block);
        block = before == nullptr ? first_.at(&extent) : before;
    }
}

}  // namespace gapless::runtime
