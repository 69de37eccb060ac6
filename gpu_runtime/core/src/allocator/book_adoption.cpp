#include "allocator/book_adoption.h"

#include <exception>
#include <utility>

namespace gapless::runtime {

void BookAdoption::adopt(Lock& lock, Book book, bool is_bounded) {
    BlockHeap& blocks = heap_.blocks();
    try {
        obtain_arena(lock, book.arena_bytes(), is_bounded);
        blocks.put_back();
        blocks.release_spare();
    } catch (...) {
        blocks.put_back();
        heap_.count_reserved(true);
        try {
            heap_.give_back(lock, book_.arena_bytes());
        } catch (...) {
            // The first error is the one to report.
        }
        throw;
    }
    heap_.count_reserved(true);
    book_ = std::move(book);
    book_.begin_step(kBetweenSteps);
    heap_.retire_excess(book_.arena_bytes());
}

void BookAdoption::obtain_arena(Lock& lock, std::size_t wanted, bool is_bounded) {
    BlockHeap& blocks = heap_.blocks();
    const std::size_t former = book_.arena_bytes();
    const std::size_t missing = blocks.arena_missing(0, wanted);
    if (blocks.is_plain()) {
        // A plain arena cannot grow, and must not lie beside its successor.
        if (missing > 0) heap_.take_out_idle(lock, 0);
    } else {
        // An arena that is mapped already, or lacks less than the bound allows, needs no frames
        // from elsewhere. Else the frames that the heap used for these requests go to the arena.
        const bool needs_none = missing == 0 || !heap_.is_above_bound(0, missing);
        const bool is_kept = former > 0 && wanted >= former && needs_none;
        if (!is_kept) heap_.gather_for_arena({0, wanted}, {});
    }
    heap_.map_arena(wanted, is_bounded);
}

void BookAdoption::drop() {
    book_ = Book();
    book_.begin_step(kBetweenSteps);
}

void BookAdoption::restore_arena(Lock& lock, bool is_bounded) {
    const std::size_t arena_bytes = book_.arena_bytes();
    BlockHeap& blocks = heap_.blocks();
    if (arena_bytes == 0 || blocks.is_paused()) return;
    try {
        // See Note [Two mappings of one frame].
        const bool lacked_places = std::exchange(lacks_places_, !blocks.recall_arena());
        if (lacked_places && lacks_places_) heap_.take_out_old(lock);
        blocks.unmap_old();
        const std::size_t missing = blocks.arena_missing(0, arena_bytes);
        if (missing == 0) return;
        if (heap_.is_above_bound(0, missing)) {
            if (blocks.is_plain()) {
                heap_.take_out_idle(lock, arena_bytes);
            } else {
                blocks.gather_for_arena({0, arena_bytes}, {});
            }
        }
        heap_.map_arena(arena_bytes, is_bounded);
    } catch (const std::exception&) {
        // The step's requests are then placed elsewhere.
    }
    heap_.release_spare();
}

}  // namespace gapless::runtime
