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

#include "device_memory.h"
#include "page_heap.h"
#include "step_plan.h"

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

// Bytes are those of the moment, peaks and counts those since reset_peaks().
struct Figures {
    std::int64_t requested_bytes = 0, requested_peak = 0;
    std::int64_t allocated_bytes = 0, allocated_peak = 0;  // rounded up to blocks
    std::int64_t reserved_bytes = 0, reserved_peak = 0;    // physical memory
    std::int64_t heap_bytes = 0;                           // allocated, outside of the arena
    std::int64_t arena_bytes = 0;  // physical memory that the arena has for itself
    std::int64_t steps = 0, planned_steps = 0;
    std::int64_t planned_requests = 0;    // served by the plan
    std::int64_t outliving_requests = 0;  // expected by the plan, and served by the heap
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
    void end_step();

    // Reserves an arena. Throws OutOfDeviceMemory, DeviceCallError, and std::logic_error within a
    // step or where there is a plan already.
    void adopt_plan(StepPlan plan);
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
    // Work of other streams on a place of the arena that its own stream got back.
    struct Use {
        std::int64_t begin;
        std::int64_t end;
        Event event;
        bool waited_for = false;  // only its event is left, which the device did not destroy
    };
    // Whole pages, and for the rest the beginning of one that the heap has anyway, where there is
    // room: that page appears at two addresses, and no byte of it is used at both.
    struct Arena {
        Address address = 0;
        std::size_t bytes = 0;  // of its addresses
        Pages pages = 0;
        std::size_t own_bytes = 0;  // of its pages
        bool mapped = false;
        std::optional<PageHeap::Room> room;
    };

    Address serve(std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    Address from_heap(std::size_t bytes, Stream stream, Placement placement);
    Address from_plan(std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    void wait_for_uses(std::int32_t slot);
    void free_slot(std::int32_t slot);
    void record_uses(std::int32_t slot);
    void forget_uses();
    bool in_arena(Address address) const { return address - arena_.address < arena_.bytes; }
    Arena make_arena(std::size_t bytes);
    void release_abandoned();
    void count_in(std::int64_t bytes);
    void count_out(std::int64_t bytes);
    std::int64_t reserved_bytes() const;
    void measure_reserved();
    void stop_logging();
    void keep(Mismatch& mismatch);

    DeviceMemory& memory_;
    mutable std::mutex mutex_;
    PageHeap heap_;
    std::optional<StepPlan> plan_;
    Arena arena_;
    Arena abandoned_;  // what is left of one that was not to be had
    bool in_step_ = false;
    StepMode mode_ = StepMode::unplanned;
    Figures figures_;
    std::int64_t step_ = 0;

    std::vector<LogEntry> log_;
    bool logging_ = false;
    std::unordered_map<Address, std::int64_t> logged_;  // blocks whose requests are in the log
    std::int64_t next_request_ = 0;

    std::unordered_map<std::int32_t, std::vector<Stream>> used_on_;  // slots
    std::vector<Use> uses_;
    // Freed slots whose uses could not be recorded: only the device's end tells that they are free.
    std::vector<std::int32_t> withheld_;

    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> mismatch_counts_;
    std::int64_t next_mismatch_ = 0;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener_;
};

}  // namespace gapless::runtime
