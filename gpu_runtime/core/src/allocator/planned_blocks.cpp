#include "allocator/planned_blocks.h"

#include <exception>
#include <utility>

#include "allocator/hand_overs.h"

namespace gapless::runtime {

Served PlannedBlocks::allocate(Lock& lock, std::size_t bytes, Stream stream) {
    // First, as PyTorch's allocator does, or the shadow would reserve more than that.
    for (BoundedHeap* const heap : heaps_) {
        if (heap->blocks().has_withheld()) heap->blocks().collect();
    }
    const ShadowPlace in_shadow = bound_.shadow().allocate(bytes, stream);
    try {
        Block& block = place(lock, bytes, stream);
        block.in_shadow = in_shadow;
        bound_.allocated(block.bytes);
        statistics_.allocated(block.requested, block.bytes);
        mismatch_ = steps_.take_mismatch();
        return {&block, mismatch_ ? &*mismatch_ : nullptr};
    } catch (...) {
        bound_.shadow().free(in_shadow);
        for (BoundedHeap* const heap : heaps_) heap->blocks().put_back();
        throw;
    }
}

Block& PlannedBlocks::place(Lock& lock, std::size_t bytes, Stream stream) {
    if (BoundedHeap* const heap = tagged_.of_thread()) {
        RepeatedSteps none;
        Block& block = *heap->place(lock, {bytes, stream}, none);
        block.record = block.request = -1;
        block.is_in_step = false;
        return block;
    }
    const RepeatedSteps::Place planned = steps_.next(stream, bytes);
    Block* block = nullptr;
    if (planned.offset != kNoPlace) {
        block = planned.beside != 0
                    ? heap_.blocks().place_beside(planned.beside, planned.offset, bytes, stream)
                    : heap_.place_at(planned.offset, bytes, stream, steps_);
        if (block == nullptr) steps_.note_occupied(stream, bytes);
    }
    if (!steps_.is_following()) heap_.blocks().open_arena();
    if (block != nullptr) {
        block->is_handed_over = planned.handed_over;
    } else {
        block = heap_.place(lock, {bytes, stream}, steps_);
    }
    steps_.note_request(*block);
    return *block;
}

void PlannedBlocks::free(BoundedHeap& heap, Block& block) {
    steps_.note_free(block);
    bound_.freed(block.bytes);
    heap.blocks().free(block);
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
        bytes += heap->give_back(lock, heap == &heap_ ? steps_.arena_bytes() : 0);
        heap->blocks().release_host();
    }
    if (graphs_.is_idle()) {
        {
            const Unlocked waiting(lock);
            graphs_.await();
        }
        bytes += graphs_.give_back();
    }
    bound_.shadow().give_back();
    heap_.note_given_back();
    return bytes;
}

StepEnd PlannedBlocks::begin_step(Lock& lock, std::int32_t label) {
    if (steps_.steps() == 0) bound_.budget().begin_again();
    const StepEnd between = steps_.begin_step(label);
    prepare(lock);
    return between;
}

StepEnd PlannedBlocks::end_step(Lock& lock, bool completed) {
    const StepEnd end = steps_.end_step(completed);
    try {
        for (BoundedHeap* const heap : heaps_) {
            if (heap->blocks().has_gone()) heap->settle(lock);
        }
        const MoveBudget::Charge charge(bound_.budget());
        // First, so that no frame retires that a place of the next step needs.
        if (steps_.has_plans()) heap_.blocks().recall_arena();
        heap_.retire_above(bound_.most(), steps_.arena_bytes());
    } catch (const std::exception&) {
        // The device refuses for now; the memory stays where it is.
    }
    prepare(lock);
    return end;
}

// Moves memory to where the plan needs it that is followed from now on. The device may refuse; then
// memory stays where it is.
void PlannedBlocks::prepare(Lock& lock) {
    if (!steps_.is_following()) return heap_.blocks().open_arena();
    const MoveBudget::Charge charge(bound_.budget());
    arena_.restore(lock, steps_.arena_bytes(), is_bounded());
    heap_.blocks().shut_arena();
}

std::vector<StepKind> PlannedBlocks::to_plan() const {
    if (has_planned_ && bound_.budget().left_seconds() < seconds_to_adopt_) return {};
    return steps_.to_plan(!has_planned_);
}

void PlannedBlocks::adopt(Lock& lock, std::vector<StepPlan> plans, std::size_t arena_bytes) {
    require_plans(plans, arena_bytes);
    mark_hand_overs(plans);
    // The first plan moves memory to its places once, at any price. Its steps then move nothing.
    const bool is_first = !has_planned_;
    const double spent_before = bound_.budget().spent_seconds();
    {
        const MoveBudget::Charge charge(bound_.budget());
        bound_.adopted();
        arena_.make_room(lock, arena_bytes, is_bounded());
        steps_.adopt(std::move(plans), arena_bytes);
        has_planned_ = true;
        heap_.retire_above(is_first ? bound_.least() : bound_.most(), arena_bytes);
    }
    prepare(lock);
    seconds_to_adopt_ = bound_.budget().spent_seconds() - spent_before;
    if (is_first) bound_.budget().refund(seconds_to_adopt_);
}

}  // namespace gapless::runtime
