#include "allocator/planned_blocks.h"

#include <exception>

namespace gapless::runtime {

namespace {

// Steps in which blocks are placed in order, see Note [Blocks in order]. A guess.
constexpr std::int64_t kStepsInOrder = 4;
// Blocks are placed in order until this multiple of the live peak has moved.
constexpr std::int64_t kMostMovedInOrder = 2;

}  // namespace

Served PlannedBlocks::allocate(Lock& lock, std::size_t bytes, Stream stream) {
    if (BoundedHeap* const heap = tagged_.of_thread()) {
        Block* const block = heap->place(lock, {bytes, stream, false, Placement::best_fit}, Book());
        block->request = kNoRequest;
        heap->count(*block);
        return {block, nullptr};
    }
    try {
        Book::Place planned = adoption_.book().request(stream, bytes);
        Block* block = place_as_planned(planned, bytes, stream);
        const std::int64_t request = next_request_++;
        if (block == nullptr) {
            const bool is_planned = planned.slot >= 0 && !planned.mismatch;
            block = heap_.place(lock, {bytes, stream, is_planned, placement()}, adoption_.book());
        }
        block->request = request;
        block->kind = planned.kind;
        block->slot = planned.slot;
        heap_.count(*block);
        // Outside of steps, an unexpected request is not a mismatch.
        if (!planned.mismatch || !in_step_) return {block, nullptr};
        mismatch_ = *planned.mismatch;
        mismatch_.step = steps_;
        return {block, &mismatch_};
    } catch (...) {
        heap_.blocks().put_back();
        throw;
    }
}

std::pair<BoundedHeap*, Block*> PlannedBlocks::find(Address address) {
    for (BoundedHeap* const heap : heaps_) {
        if (Block* const block = heap->blocks().find(address)) return {heap, block};
    }
    return {nullptr, nullptr};
}

const BoundedHeap* PlannedBlocks::heap_at(Address address) const {
    for (const BoundedHeap* heap : heaps_) {
        if (heap->blocks().extent_of(address) != nullptr) return heap;
    }
    return nullptr;
}

std::size_t PlannedBlocks::give_back(Lock& lock) {
    std::size_t bytes = 0;
    for (BoundedHeap* const heap : heaps_) {
        bytes += heap->give_back(lock, heap == &heap_ ? adoption_.book().arena_bytes() : 0);
        heap->blocks().release_host();
    }
    return bytes;
}

// Returns null if the request has no place, or if its places are occupied.
Block* PlannedBlocks::place_as_planned(Book::Place& planned, std::size_t bytes, Stream stream) {
    if (planned.offset == kNoPlace) return nullptr;
    Book& book = adoption_.book();
    Block* block = heap_.place_at(planned.offset, bytes, stream, book);
    if (block == nullptr && planned.spare != kNoPlace) {
        block = heap_.place_at(planned.spare, bytes, stream, book);
    }
    if (block != nullptr) {
        block->is_handed_over = planned.handed_over;
        return block;
    }
    book.was_in_use();
    planned.mismatch = Mismatch{.kind = MismatchKind::in_use,
                                .stream = stream,
                                .bytes = bytes,
                                .request = planned.slot,
                                .step_kind = planned.kind};
    return nullptr;
}

// See Note [Blocks in order]: the first steps create blocks that stay.
Placement PlannedBlocks::placement() const {
    const bool is_in_order = in_step_ && adoption_.book().arena_bytes() == 0 &&
                             steps_ < kStepsInOrder &&
                             static_cast<std::int64_t>(heap_.blocks().moved_bytes()) <=
                                 kMostMovedInOrder * heap_.bound().live_peak();
    return is_in_order ? Placement::in_order : Placement::best_fit;
}

StepEnd PlannedBlocks::begin_step(std::int32_t label) {
    const StepEnd between = adoption_.book().end_step();
    adoption_.book().begin_step(label);
    in_step_ = true;
    return between;
}

StepEnd PlannedBlocks::end_step() {
    const StepEnd end = adoption_.book().end_step();
    adoption_.book().begin_step(kBetweenSteps);
    in_step_ = false;
    ++steps_;
    return end;
}

void PlannedBlocks::tidy_after_step(Lock& lock) noexcept {
    try {
        for (BoundedHeap* const heap : heaps_) {
            if (heap->blocks().has_gone()) heap->settle(lock);
        }
        adoption_.restore_arena(lock, is_bounded());
        heap_.retire_excess(adoption_.book().arena_bytes());
    } catch (const std::exception&) {
        // The device refuses for now; the memory stays where it is.
    }
}

}  // namespace gapless::runtime
