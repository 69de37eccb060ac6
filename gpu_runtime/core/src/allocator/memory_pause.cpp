#include "allocator/memory_pause.h"

#include <algorithm>

namespace gapless::runtime {

namespace {

void count_reserved(const Heaps& heaps) {
    for (BoundedHeap* const heap : heaps) heap->count_reserved();
}

}  // namespace

std::size_t reserved_bytes(const Heaps& heaps) {
    std::size_t bytes = 0;
    for (const BoundedHeap* heap : heaps) bytes += heap->blocks().reserved_bytes();
    return bytes;
}

std::size_t pause(Lock& lock, const Heaps& heaps, bool keeps) {
    const std::size_t before = reserved_bytes(heaps);
    BlockHeap::Leaving all;
    for (BoundedHeap* const heap : heaps) {
        const StreamMarks marks = heap->blocks().known_marks();
        all.marks.insert(all.marks.end(), marks.begin(), marks.end());
    }
    {
        const Unlocked waiting(lock);
        heaps.front()->blocks().await(all);
    }
    try {
        for (BoundedHeap* const heap : heaps) {
            // The lock is released meanwhile, so another thread may move frames.
            do {
                heap->give_back(lock, 0);
            } while (heap->blocks().has_old_mappings() && !heap->blocks().is_capturing());
        }
        std::vector<PausedRuns> runs;
        for (BoundedHeap* const heap : heaps) {
            runs.push_back(heap->blocks().pausable_runs(keeps));
        }
        for (std::size_t i = 0; i < heaps.size(); ++i) {
            heaps[i]->blocks().give_up(std::move(runs[i]));
        }
    } catch (...) {
        count_reserved(heaps);
        throw;
    }
    count_reserved(heaps);
    return before - std::min(before, reserved_bytes(heaps));
}

std::size_t resume(Lock& lock, const Heaps& heaps) {
    for (bool is_last = false;; is_last = true) {
        const std::size_t before = reserved_bytes(heaps);
        try {
            for (BoundedHeap* const heap : heaps) heap->blocks().resume();
            count_reserved(heaps);
            return reserved_bytes(heaps) - std::min(before, reserved_bytes(heaps));
        } catch (const OutOfDeviceMemory&) {
            count_reserved(heaps);
            if (is_last) throw;
            heaps.front()->give_back_everywhere(lock);
        } catch (...) {
            count_reserved(heaps);
            throw;
        }
    }
}

std::vector<std::pair<Address, std::size_t>> paused_blocks(const Heaps& heaps) {
    std::vector<std::pair<Address, std::size_t>> found;
    for (const BoundedHeap* heap : heaps) {
        for (const auto& [begin, run] : heap->blocks().paused_runs()) {
            const Block* block = run.first;
            for (; block != nullptr && block->address < run.end; block = block->behind) {
                if (block->state != BlockState::used) continue;
                found.emplace_back(block->address, block->requested);
            }
        }
    }
    return found;
}

}  // namespace gapless::runtime
