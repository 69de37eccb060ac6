// The allocator that PyTorch calls: a step's requests at planned places, all else from a heap.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/page_heap.h"
#include "allocator/plan_arena.h"
#include "allocator/step_plan.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// What is done with the requests of a step.
enum class StepMode : std::uint8_t {
    unplanned,  // the heap serves them, and no plan will be made
    profiled,   // the heap serves them in order, and they are written down
    planned,    // the plan serves them
};

// What happened, in order.
struct LogEntry {
    enum class Kind : std::uint8_t { request, free, step_begins, step_ends };
    Kind kind;
    std::int64_t id = -1;  // of the request
    std::int64_t bytes = 0;
    Stream stream = 0;
};

// Requests of one planned step.
struct StepCounts {
    std::int64_t planned = 0, escaping = 0, fallback = 0, missing = 0;
};

// Bytes are those of the moment, peaks and counts those since reset_peaks().
struct Figures {
    std::int64_t requested_bytes = 0, requested_peak = 0;
    std::int64_t allocated_bytes = 0, allocated_peak = 0;  // rounded up to blocks
    std::int64_t reserved_bytes = 0, reserved_peak = 0;    // physical memory
    std::int64_t heap_bytes = 0;                           // allocated, outside of the arena
    std::int64_t arena_bytes = 0;  // physical memory that the arena has for itself
    std::int64_t steps = 0, planned_steps = 0;
    std::int64_t planned_requests = 0;   // served by the plan
    std::int64_t escaping_requests = 0;  // expected by the plan, and served by the heap
    std::int64_t fallback_requests = 0, fallback_bytes = 0;
    std::int64_t missing_requests = 0;
    std::int64_t refused_frees = 0;  // the device refused what a free needed
};

// Safe to call from any thread. One lock guards everything; it is never held while Python runs,
// so that a thread which waits for it may hold the interpreter.
class PlannedAllocator {
  public:
    explicit PlannedAllocator(DeviceMemory& memory);

    // Returns 0 for no bytes. Throws OutOfDeviceMemory, DeviceCallError.
    Address allocate(std::size_t bytes, Stream stream);
    // Never throws: what frees a tensor cannot fail.
    void free(Address address) noexcept;
    // A stream that did not allocate a block uses it: its bytes come back when that is done.
    void use_on(Address address, Stream stream);

    // Steps do not nest: throws std::logic_error.
    void begin_step(StepMode mode);
    // Returns how the step was served, by the figures that count requests.
    StepCounts end_step();

    // Reserves an arena. Throws OutOfDeviceMemory, DeviceCallError, and std::logic_error within a
    // step or where there is a plan already.
    void adopt_plan(StepPlan plan);
    // Forgets the plan; its arena goes as soon as nothing is in use there. Throws std::logic_error
    // within a step or without a plan.
    void drop_plan();
    // Waits for the device and gives back what the heap does not need.
    void give_back();

    std::vector<LogEntry> take_log();
    Figures figures() const;
    void reset_peaks();
    // The first ones, and how many there were of each kind, by MismatchKind.
    std::vector<Mismatch> mismatches() const;
    std::vector<std::int64_t> mismatch_counts() const;
    // Called without the lock, in the thread that asked, for each mismatch that is kept.
    void on_mismatch(std::function<void(const Mismatch&)> listener);
    // Holds the heap against its rules. For tests.
    void check() const;

  private:
    Address serve(std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    Address from_heap(std::size_t bytes, Stream stream, Placement placement);
    // Gives back arenas of dropped plans where the heap has no memory without.
    Address place_in_heap(std::size_t bytes, Stream stream, Placement placement);
    Address from_plan(std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    // The arena that an address lies in, null where none does.
    PlanArena* arena_of(Address address) const;
    void release_retired();
    void count_in(std::int64_t bytes);
    void count_out(std::int64_t bytes);
    std::int64_t reserved_bytes() const;
    void measure_reserved();
    void stop_logging();
    void keep(Mismatch& mismatch);

    DeviceMemory& memory_;
    mutable std::mutex mutex_;
    PageHeap heap_;
    std::unique_ptr<PlanArena> arena_;  // of the plan in force, if any
    // Arenas of plans that were dropped, until nothing is in use there, and what is left of those
    // that were not to be had.
    std::vector<std::unique_ptr<PlanArena>> retired_;
    bool in_step_ = false;
    StepMode mode_ = StepMode::unplanned;
    Figures figures_;
    StepCounts counts_;  // of the step that runs
    std::int64_t step_ = 0;

    std::vector<LogEntry> log_;
    bool logging_ = false;
    std::unordered_map<Address, std::int64_t> logged_;  // blocks whose requests are in the log
    std::int64_t next_request_ = 0;

    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> mismatch_counts_;
    std::int64_t next_mismatch_ = 0;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener_;
};

}  // namespace gapless::runtime
