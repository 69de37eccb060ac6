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
// creates frames of the same sizes at the same addresses, as far as a block in use needs them; the
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
            if (open == nullptr) open = &(runs[block->address] = {block, 0, {}, {}, bytes});
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
        run.frames = unmap_frames(*run.first->extent, begin, run.end);
        for (const Frame& frame : run.frames) current_.erase(frame.pages);
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
std::vector<Frame> BlockHeap::unmap_frames(Extent& extent, Address begin, Address end) {
    std::vector<Frame> frames = extent.unmap(begin, end);
    spare_.insert(spare_.end(), frames.begin(), frames.end());
    spare_bytes_ += end - begin;
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
    std::vector<Frame> row;  // of one size
    Address at = begin, row_begin = begin;
    const auto finish_row = [&] {
        if (row.empty()) return;
        const std::size_t bytes = row.size() * row.front().bytes;
        extent.map(row_begin, row);
        row.clear();
        if (run.copy == nullptr) return;
        memory_.copy(row_begin, run.kept + (row_begin - begin), bytes);
    };
    try {
        for (const auto& [pages, bytes] : run.frames) {
            const bool is_wanted = is_needed(block, at, at + bytes);
            const bool is_alike = !row.empty() && row.front().bytes == bytes;
            if (!is_wanted || !is_alike || at - row_begin >= kRowBytes) finish_row();
            if (is_wanted) {
                if (row.empty()) row_begin = at;
                row.push_back({memory_.create_pages(bytes), bytes});
                reserved_bytes_ += bytes;
            }
            at += bytes;
        }
        finish_row();
    } catch (...) {
        for (const Frame& frame : row) {
            spare_.push_back(frame);
            spare_bytes_ += frame.bytes;
        }
        throw;
    }
}

// Gives the frames of a resume that failed back to the device.
void BlockHeap::withdraw() {
    if (paused_.empty()) return;
    memory_.await_copies();
    for (const auto& [begin, run] : paused_) {
        Extent& extent = *run.first->extent;
        for (const auto& [address, bytes] : extent.frames_within(begin, run.end)) {
            unmap_frames(extent, address, address + bytes);
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
    Address at = begin;
    Block* block = first_.at(&extent);
    for (const auto& [former, bytes] : run.frames) {
        const auto frame = extent.frames().find(at);
        if (frame != extent.frames().end()) {
            current_[frame->second.pages] = at;
            if (&extent == arena_) arena_bytes_ += bytes;
        } else {
            Leaving hole;
            take(hole, block, at, at + bytes);
            block = hole.runs.front().first;
            while (block->bytes < bytes) absorb(*block);
            loses_memory(*block);
            Block* const before = block->before;
            add_hole(*block);
            block = before == nullptr ? first_.at(&extent) : before;
        }
        at += bytes;
    }
}

}  // namespace gapless::runtime
