// Observes which memory is free: has writes to it searched for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocator/heap_segments.h"
#include "allocator/overwrite_check.h"
#include "allocator/planned_blocks.h"

namespace gapless::runtime {

// See Note [Observers are adaptors] and Note [Writes after free].
template <class Observed>
class OverwriteAdaptor : public Observed {
  public:
    // `check` is null if the check is off; else it is an adaptor over `memory` and outlives this.
    OverwriteAdaptor(OverwriteCheck* check, DeviceMemory& memory, bool is_plain,
                     double share_of_moves)
        : Observed(check != nullptr ? *check : memory, is_plain, share_of_moves), check_(check) {}

    Served allocate(Lock& lock, std::size_t bytes, Stream stream) {
        const Served served = Observed::allocate(lock, bytes, stream);
        if (check_ != nullptr) check_->enter(*served.block, this->steps().steps());
        return served;
    }
    void free(BoundedHeap& heap, Block& block) {
        if (check_ != nullptr && !heap.blocks().is_paused(block)) {
            check_->leave(block, this->steps().steps());
        }
        Observed::free(heap, block);
    }

    // Waits for the device. Returns the writes to free memory that were found since the last call.
    // Bytes are compared when they are handed out again; with `everywhere`, all free memory is
    // compared now as well. Throws DeviceCallError.
    std::vector<Overwrite> take_overwrites(Lock& lock, bool everywhere) {
        if (check_ == nullptr) return {};
        if (everywhere) check_->compare_all();
        const std::uint64_t comparisons = check_->comparisons();
        {
            const Unlocked waiting(lock);
            check_->synchronize();
        }
        std::vector<Overwrite> overwrites = check_->take(comparisons);
        for (Overwrite& found : overwrites) {
            found.offset = offset_in_arena(this->heap().blocks(), found.address);
        }
        return overwrites;
    }

  private:
    OverwriteCheck* const check_;
};

}  // namespace gapless::runtime
