// Serves requests: recognises each in the plan, and places it there or at the next best place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "allocator/block.h"
#include "allocator/book.h"
#include "allocator/book_adoption.h"
#include "allocator/bounded_heap.h"
#include "allocator/memory_pause.h"
#include "allocator/mismatch.h"
#include "allocator/tagged_heaps.h"

namespace gapless::runtime {

// A request that was served. The mismatch is null if the request was served as planned, or if no
// step is running. It lasts until the next request.
struct Served {
    Block* block;
    Mismatch* mismatch;
};

// Note [Observers are adaptors]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. The log, the figures, the mismatches and the search for overwrites each watch every
// request. If all of them are part of one allocator, no reader can tell what places a block.
// Approach. This class places blocks and watches nothing. Each observer is an adaptor in a file of
// its own: a class template that derives from what it observes, and adds its work to allocate(),
// free(), begin_step() and end_step() where it has any. The allocator names the whole row of them.
// The compiler sees it too, so a request makes no virtual call for an observer.
// Limits. The row is fixed when the core is compiled.

// The caller holds the lock. A function that takes it releases it while the host waits.
class PlannedBlocks {
  public:
    PlannedBlocks(DeviceMemory& memory, bool is_plain)
        : heap_(memory, is_plain, statistics_, heaps_),
          tagged_(memory, is_plain, statistics_, heaps_),
          adoption_(heap_) {
        heaps_.push_back(&heap_);
        adoption_.drop();
    }
    PlannedBlocks(const PlannedBlocks&) = delete;
    PlannedBlocks& operator=(const PlannedBlocks&) = delete;
    ~PlannedBlocks() = default;

    // Throws OutOfDeviceMemory, DeviceCallError.
    Served allocate(Lock& lock, std::size_t bytes, Stream stream);
    // Throws what BlockHeap::free() throws.
    void free(BoundedHeap& heap, Block& block) { heap.free(block); }

    // Each returns how the requests since the last step, or within it, were served.
    StepEnd begin_step(std::int32_t label);
    StepEnd end_step();
    // Move memory to where the next step needs it. The device may refuse; then memory stays where
    // it is.
    void prepare_step(Lock& lock) { adoption_.restore_arena(lock, is_bounded()); }
    void tidy_after_step(Lock& lock) noexcept;

    void adopt(Lock& lock, Book book) { adoption_.adopt(lock, std::move(book), is_bounded()); }
    void drop_book() { adoption_.drop(); }
    std::size_t give_back(Lock& lock);

    // The heap without a tag, which alone has an arena.
    BoundedHeap& heap() { return heap_; }
    const BoundedHeap& heap() const { return heap_; }
    // That heap, and those of tags.
    const Heaps& heaps() const { return heaps_; }
    TaggedHeaps& tagged() { return tagged_; }
    // The block in use at an address and its heap, or nulls.
    std::pair<BoundedHeap*, Block*> find(Address address);
    // The heap that has an address, or null.
    const BoundedHeap* heap_at(Address address) const;
    // Bytes of all blocks in use.
    std::int64_t live_bytes() const {
        std::int64_t bytes = 0;
        for (const BoundedHeap* heap : heaps_) bytes += heap->bound().live_bytes();
        return bytes;
    }
    BlockStatistics& statistics() { return statistics_; }
    const BlockStatistics& statistics() const { return statistics_; }
    bool in_step() const { return in_step_; }
    // Number of steps that have ended.
    std::int64_t steps() const { return steps_; }

  private:
    Block* place_as_planned(Book::Place& planned, std::size_t bytes, Stream stream);
    Placement placement() const;
    // Before the first step there is no live peak to compare an arena with.
    bool is_bounded() const { return steps_ > 0; }

    BlockStatistics statistics_;
    Heaps heaps_;
    BoundedHeap heap_;
    TaggedHeaps tagged_;
    BookAdoption adoption_;
    bool in_step_ = false;
    std::int64_t steps_ = 0;
    std::int64_t next_request_ = 0;
    Mismatch mismatch_{};  // of the last request that had one
};

}  // namespace gapless::runtime
