#include "allocator/bounded_heap.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "device/sizes.h"

namespace gapless::runtime {

BoundedHeap::BoundedHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics,
                         MemoryBound& bound, const std::vector<BoundedHeap*>& all)
    : memory_(memory),
      reserved_part_(statistics),
      all_(all),
      blocks_(memory, is_plain, statistics, bound.shadow()),
      bound_(bound) {}

bool BoundedHeap::is_above_bound(std::size_t bytes, std::size_t more) const {
    return static_cast<std::int64_t>(reserved_bytes() + more) >
           bound_.most(round_up(bytes, kBlockAlignment));
}

bool BoundedHeap::is_above_bound_of_places(std::size_t bytes, std::size_t more) const {
    if (bound_.budget().is_unlimited()) return is_above_bound(bytes, more);
    return static_cast<std::int64_t>(reserved_bytes() + more) > bound_.most_of_places();
}

// Returns true if mapping so many bytes, from gathered and spare frames first, would exceed the
// shadow.
bool BoundedHeap::is_above_shadow(std::size_t missing) const {
    const std::size_t more = missing - std::min(missing, blocks_.available_bytes());
    return more > 0 &&
           static_cast<std::int64_t>(reserved_bytes() + more) > bound_.shadow().reserved_bytes();
}

std::size_t BoundedHeap::reserved_bytes() const {
    std::size_t bytes = 0;
    for (const BoundedHeap* const heap : all_) bytes += heap->blocks_.reserved_bytes();
    return bytes;
}

void BoundedHeap::count_reserved() {
    // Counts the same segments as segments_of() returns.
    reserved_part_.set(blocks_.stretches(), blocks_.reserved_bytes());
    bound_.reserved(reserved_bytes());
}

void BoundedHeap::release_spare() {
    blocks_.put_back();
    try {
        blocks_.release_spare();
    } catch (const DeviceCallError&) {
        // The next call releases them.
    }
    count_reserved();
}

template <class Gather>
void BoundedHeap::gather(const Gather& gather_frames) {
    try {
        gather_frames();
    } catch (const DeviceCallError&) {
        // A stream is captured or destroyed, or the device refuses: the heap grows.
        blocks_.put_back();
    }
}

void BoundedHeap::gather_for_arena(std::size_t offset, std::size_t bytes, std::size_t arena_kept) {
    gather([&] { blocks_.gather_for_arena(offset, bytes, arena_kept); });
}

// Called if no range is free: grows the heap within the bound.
Block* BoundedHeap::place_with_more(Lock& lock, const Wanted& wanted, RepeatedSteps& steps) {
    Block* const block = grow(lock, wanted, steps);
    release_spare();
    return block;
}

Block* BoundedHeap::grow(Lock& lock, const Wanted& wanted, RepeatedSteps& steps) {
    // Beside plans, a request that they do not expect takes pages up to the shadow, then free
    // memory of the arena. A block that lives on lies outside of the places, and no frame leaves
    // them. Where moves have no limit, the fewest bytes count.
    const bool is_beside =
        steps.has_plans() && !steps.is_following() && !bound_.budget().is_unlimited();
    const auto is_above = [&](std::size_t more) {
        return is_beside ? is_above_shadow(more) : is_above_bound(wanted.bytes, more);
    };
    // At least a page is missing. This is known before it is known how many are.
    if (is_above(page_bytes())) {
        if (Block* block = blocks_.place_in_open_arena(wanted.bytes, wanted.stream)) return block;
    }
    // Frames that are about to go back come before new ones.
    if (blocks_.retired_bytes() > 0) {
        blocks_.reuse_retired(blocks_.missing_for(wanted.bytes, wanted.stream), wanted.stream);
        if (Block* block = blocks_.place(wanted.bytes, wanted.stream)) return block;
    }
    const std::size_t missing = blocks_.missing_for(wanted.bytes, wanted.stream);
    blocks_.unmap_old();
    std::optional<MoveBudget::Charge> charge;
    if (is_above(missing)) {
        charge.emplace(bound_.budget());
        if (Block* block = place_within_bound(wanted, steps)) return block;
    } else if (bound_.was_reserved(reserved_bytes() + missing)) {
        charge.emplace(bound_.budget());
    }
    enum class Attempt : std::uint8_t { as_it_is, by_moves, all_given_back };
    for (Attempt attempt = Attempt::as_it_is;;) {
        try {
            blocks_.grow(wanted.bytes, wanted.stream);
            count_reserved();
            if (Block* block = blocks_.place(wanted.bytes, wanted.stream)) return block;
        } catch (const OutOfDeviceMemory&) {
            blocks_.put_back();
            count_reserved();
            if (attempt == Attempt::as_it_is) {
                // The device is full: idle frames move at any price, which waits for nobody.
                if (Block* block = place_within_bound(wanted, steps)) return block;
                attempt = Attempt::by_moves;
            } else {
                // The device, or other libraries, may need memory that this allocator cannot use.
                give_back_everywhere(lock);
                if (attempt == Attempt::all_given_back) throw;
                attempt = Attempt::all_given_back;
            }
        }
    }
}

Block* BoundedHeap::place_within_bound(const Wanted& wanted, RepeatedSteps& steps) {
    if (Block* block = blocks_.place_in_open_arena(wanted.bytes, wanted.stream)) return block;
    if (blocks_.has_withheld()) {
        try {
            blocks_.free_withheld();
        } catch (const DeviceCallError&) {
            // The blocks stay withheld.
        }
        if (Block* block = blocks_.place(wanted.bytes, wanted.stream)) {
            return block;
        }
    }
    if (blocks_.is_plain()) return nullptr;
    // While a plan is followed, the frames of its places serve no other request.
    if (steps.is_following()) {
        if (Block* block = place_in_idle(wanted, steps.arena_bytes())) return block;
        if (!is_above_shadow(blocks_.missing_for(wanted.bytes, wanted.stream))) return nullptr;
        blocks_.put_back();
        steps.leave();
        blocks_.open_arena();
        if (Block* block = blocks_.place_in_open_arena(wanted.bytes, wanted.stream)) return block;
    }
    return place_in_idle(wanted, 0);
}

// Returns a block in idle frames at old mappings. Without such, gathers idle frames, and returns
// null. Takes no frame from the first `arena_kept` bytes of the arena.
Block* BoundedHeap::place_in_idle(const Wanted& wanted, std::size_t arena_kept) {
    if (blocks_.recall_for(wanted.bytes, wanted.stream, arena_kept)) {
        return blocks_.place(wanted.bytes, wanted.stream);
    }
    gather([&] { blocks_.gather(wanted.bytes, wanted.stream, arena_kept); });
    return nullptr;
}

// Called if a place of the arena is not free: its frames may be elsewhere, or not there yet.
Block* BoundedHeap::place_with_frames(std::int64_t planned, std::size_t bytes, Stream stream,
                                      const RepeatedSteps& steps) {
    const MoveBudget::Charge charge(bound_.budget());
    const auto offset = static_cast<std::size_t>(planned);
    if (blocks_.recall(offset, bytes)) {
        count_reserved();
        if (Block* block = blocks_.place_at(planned, bytes, stream)) return block;
    }
    if (!blocks_.is_unmapped(offset, bytes)) return nullptr;
    const std::size_t missing = blocks_.arena_missing(offset, bytes);
    // The memory of this place moved away; it is idle elsewhere by now, or needed.
    if (is_above_bound_of_places(bytes, missing)) {
        gather_for_arena(offset, bytes, steps.arena_bytes());
        const std::size_t more = missing - std::min(missing, blocks_.available_bytes());
        // Frames that only move add nothing, also while the heap is above the bound.
        if (more > 0 &&
            static_cast<std::int64_t>(reserved_bytes() + more) > bound_.most_of_places()) {
            release_spare();
            return nullptr;
        }
    }
    try {
        blocks_.fill_arena(offset, bytes);
    } catch (const OutOfDeviceMemory&) {
        release_spare();
        return nullptr;
    }
    Block* const block = blocks_.place_at(planned, bytes, stream);
    release_spare();
    return block;
}

// See Note [Memory in bounds]. What is not mapped here is mapped when a request comes to its place.
void BoundedHeap::map_arena(std::size_t bytes, bool is_bounded) {
    const std::size_t missing = blocks_.arena_missing(0, bytes);
    const std::size_t more = missing - std::min(missing, blocks_.available_bytes());
    if (is_bounded && !blocks_.is_plain() && more > 0 && is_above_bound_of_places(0, more)) {
        blocks_.refill_arena(bytes);
    } else {
        blocks_.fill_arena(0, bytes);
    }
}

void BoundedHeap::settle(Lock& lock) {
    const BlockHeap::Unsettled unsettled = blocks_.unsettled();
    {
        const Unlocked waiting(lock);
        blocks_.await(unsettled);
    }
    blocks_.settle(unsettled);
}

std::size_t BoundedHeap::give_back(Lock& lock, std::size_t arena_kept) {
    if (blocks_.has_withheld()) settle(lock);
    const std::size_t before = blocks_.reserved_bytes();
    take_out_idle(lock, arena_kept);
    blocks_.release_spare();
    count_reserved();
    return before - std::min(before, blocks_.reserved_bytes());
}

void BoundedHeap::give_back_everywhere(Lock& lock) {
    for (BoundedHeap* const heap : all_) heap->give_back(lock, 0);
    note_given_back();
}

void BoundedHeap::take_out_idle(Lock& lock, std::size_t arena_kept) {
    take_out(lock, blocks_.take_idle(arena_kept));
}

void BoundedHeap::take_out(Lock& lock, const BlockHeap::Leaving& leaving) {
    if (leaving.runs.empty() && leaving.marks.empty()) return;
    try {
        const Unlocked waiting(lock);
        blocks_.await(leaving);
    } catch (...) {
        blocks_.put_back(leaving);
        throw;
    }
    blocks_.finish(leaving);
}

void BoundedHeap::retire_above(std::int64_t most, std::size_t arena_kept) {
    if (blocks_.is_plain()) return;
    const auto staying = static_cast<std::int64_t>(reserved_bytes() - blocks_.retired_bytes());
    const std::int64_t excess = staying - most;
    try {
        if (excess > 0) blocks_.retire(static_cast<std::size_t>(excess), arena_kept);
    } catch (const DeviceCallError&) {
        // A stream is destroyed, or the device refuses: the memory stays for now.
        blocks_.put_back();
    }
    blocks_.unmap_old();
    count_reserved();
}

}  // namespace gapless::runtime
