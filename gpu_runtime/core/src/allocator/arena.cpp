#include "allocator/arena.h"

#include <exception>
#include <utility>

namespace gapless::runtime {

void Arena::make_room(Lock& lock, std::size_t wanted, bool is_bounded) {
    BlockHeap& blocks = heap_.blocks();
    blocks.reuse_retired();
    // Blocks that stay would be in the way of new places. Addresses are plentiful.
    if (!blocks.is_plain() && !blocks.is_paused() && blocks.is_arena_in_use()) {
        try {
            blocks.close_arena();
        } catch (const DeviceCallError&) {
            // A stream is captured or destroyed, or the device refuses: the blocks stay in the way.
        }
    }
    try {
        obtain(lock, wanted, is_bounded);
        blocks.put_back();
        blocks.release_spare();
    } catch (...) {
        blocks.put_back();
        heap_.count_reserved();
        try {
            heap_.give_back(lock, bytes_);
        } catch (...) {
            // The first error is the one to report.
        }
        throw;
    }
    bytes_ = wanted;
    heap_.count_reserved();
}

void Arena::obtain(Lock& lock, std::size_t wanted, bool is_bounded) {
    BlockHeap& blocks = heap_.blocks();
    const std::size_t missing = blocks.arena_missing(0, wanted);
    if (blocks.is_plain()) {
        // A plain arena cannot grow, and must not lie beside its successor.
        if (missing > 0) heap_.take_out_idle(lock, 0);
    } else {
        // An arena that is mapped already, or lacks less than the bound allows, needs no frames
        // from elsewhere. Else the frames that the heap used for these requests go to the arena.
        const bool needs_none = missing == 0 || !heap_.is_above_bound(0, missing);
        const bool is_kept = bytes_ > 0 && wanted >= bytes_ && needs_none;
        if (!is_kept) heap_.gather_for_arena(0, wanted, wanted);
    }
    heap_.map_arena(wanted, is_bounded);
}

void Arena::restore(Lock& lock, std::size_t bytes, bool is_bounded) {
    bytes_ = bytes;
    BlockHeap& blocks = heap_.blocks();
    if (bytes == 0 || blocks.is_paused()) return;
    try {
        blocks.recall_arena();
        blocks.unmap_old();
        const std::size_t missing = blocks.arena_missing(0, bytes);
        if (missing == 0) return;
        if (heap_.is_above_bound_of_places(0, missing)) {
            if (blocks.is_plain()) {
                heap_.take_out_idle(lock, bytes);
            } else {
                blocks.gather_for_arena(0, bytes, bytes);
            }
        }
        heap_.map_arena(bytes, is_bounded);
    } catch (const std::exception&) {
        // The step's requests are then placed elsewhere.
    }
    heap_.release_spare();
}

}  // namespace gapless::runtime
