// Serves requests: recognises each in the plan, and places it there or at the next best place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/arena.h"
#include "allocator/block.h"
#include "allocator/bounded_heap.h"
#include "allocator/graph_memory.h"
#include "allocator/memory_pause.h"
#include "allocator/mismatch.h"
#include "allocator/repeated_steps.h"
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
// Rationale. The figures, the mismatches and the search for overwrites each watch every request.
//  If all of them are part of one allocator, no reader can tell what places a block.
// Approach. This class places blocks and watches nothing. Each observer is an adaptor in a file of
// its own: a class template that derives from what it observes, and adds its work to allocate(),
// free(), begin_step() and end_step() where it has any. The allocator names the whole row of them.
// The compiler sees it too, so a request makes no virtual call for an observer.
// Limits. The row is fixed when the core is compiled.

// The caller holds the lock. A function that takes it releases it while the host waits.
class PlannedBlocks {
  public:
    // `share_of_moves` as MoveBudget says.
    PlannedBlocks(DeviceMemory& memory, bool is_plain, double share_of_moves)
        : bound_(memory.page_bytes(), memory.total_bytes(), share_of_moves),
          heap_(memory, is_plain, statistics_, bound_, heaps_),
          tagged_(memory, is_plain, statistics_, bound_, heaps_),
          arena_(heap_),
          graphs_(memory, statistics_) {
        heaps_.push_back(&heap_);
    }
    PlannedBlocks(const PlannedBlocks&) = delete;
    PlannedBlocks& operator=(const PlannedBlocks&) = delete;
    ~PlannedBlocks() = default;

    // Throws OutOfDeviceMemory, DeviceCallError.
    Served allocate(Lock& lock, std::size_t bytes, Stream stream);
    // Throws what BlockHeap::free() throws.
    void free(BoundedHeap& heap, Block& block);

    // begin_step() returns the outcome of the requests between the steps.
    StepEnd begin_step(Lock& lock, std::int32_t label);
    StepEnd end_step(Lock& lock, bool completed);

    // The kinds to plan together, if one is new. The first plan, which is free, waits for the steps
    // to settle. Others are made once the budget has saved what the last one took, since frames
    // move to new places.
    std::vector<StepKind> to_plan() const;
    // Replaces the plans, between steps; blocks in the arena stay. Throws what require_plans()
    // throws, OutOfDeviceMemory and DeviceCallError, with the former plans still in force.
    void adopt(Lock& lock, std::vector<StepPlan> plans, std::size_t arena_bytes);
    std::size_t give_back(Lock& lock);

    // The heap without a tag, which alone has an arena.
    BoundedHeap& heap() { return heap_; }
    const BoundedHeap& heap() const { return heap_; }
    // That heap, and those of tags.
    const Heaps& heaps() const { return heaps_; }
    TaggedHeaps& tagged() { return tagged_; }
    // The memory of captured graphs, which is in no heap and in no bound.
    GraphMemory& graphs() { return graphs_; }
    const GraphMemory& graphs() const { return graphs_; }
    const RepeatedSteps& steps() const { return steps_; }
    const MemoryBound& bound() const { return bound_; }
    // The block in use at an address and its heap, or nulls.
    std::pair<BoundedHeap*, Block*> find(Address address);
    // The heap that has an address, or null.
    const BoundedHeap* heap_at(Address address) const;
    BlockStatistics& statistics() { return statistics_; }
    const BlockStatistics& statistics() const { return statistics_; }

  private:
    Block& place(Lock& lock, std::size_t bytes, Stream stream);
    void prepare(Lock& lock);
    // Before the first step there is no live peak to compare an arena with.
    bool is_bounded() const { return steps_.steps() > 0; }

    BlockStatistics statistics_;
    MemoryBound bound_;
    Heaps heaps_;
    BoundedHeap heap_;
    TaggedHeaps tagged_;
    Arena arena_;
    GraphMemory graphs_;
    RepeatedSteps steps_;
    bool has_planned_ = false;
    double seconds_to_adopt_ = 0;       // of the last plans
    std::optional<Mismatch> mismatch_;  // of the last request that had one
};

}  // namespace gapless::runtime
