// The allocator beneath PyTorch's: serves every request at its planned place, or at the next best.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "allocator/block_heap.h"
#include "allocator/block_statistics.h"
#include "allocator/book.h"
#include "allocator/log_entry.h"
#include "allocator/memory_bound.h"
#include "allocator/mismatch.h"
#include "allocator/overwrite_check.h"
#include "allocator/serving_allocator.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Current bytes, and peaks and counts since reset_peaks().
struct Figures {
    std::int64_t requested_bytes = 0, requested_peak = 0;
    std::int64_t allocated_bytes = 0, allocated_peak = 0;  // requests rounded up to blocks
    std::int64_t reserved_bytes = 0, reserved_peak = 0;    // physical memory
    std::int64_t arena_bytes = 0;                          // the arena's part of reserved bytes
    std::int64_t live_peak = 0;  // peak of allocated bytes since the beginning
    std::int64_t steps = 0, planned_steps = 0;
    std::int64_t planned_requests = 0;   // served at their places
    std::int64_t escaping_requests = 0;  // planned without a place, since they outlive their step
    std::int64_t grown_requests = 0;     // larger than their planned places
    std::int64_t fallback_requests =
        0;  // in steps of a likely kind, at no planned place; grown ones too
    std::int64_t fallback_bytes = 0;
    std::int64_t step_bytes = 0;  // of all requests within steps
    std::int64_t missing_requests = 0;
    std::int64_t moved_bytes = 0;    // bytes of frames that moved to other addresses
    std::int64_t refused_frees = 0;  // frees for which the device refused a call
};

// A block in use in the arena. `kind` and `slot` refer to the book that served the request.
struct ArenaBlock {
    std::int64_t offset, bytes, request;
    std::int32_t kind, slot;
};

// Thread-safe. One lock guards all state. The lock is not held while Python runs, so a thread that
// waits for it may hold the interpreter lock. It is not held while the host waits for the device
// either.
class PlannedAllocator final : public ServingAllocator {
  public:
    // With `is_plain`, memory comes from plain allocations: see DeviceMemory. With `is_checked`,
    // writes to free memory are searched for: see Note [Writes after free]. Throws DeviceCallError
    // if the device cannot do so.
    explicit PlannedAllocator(DeviceMemory& memory, bool is_plain = false, bool is_checked = false);

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) noexcept override;
    bool use_on(Address address, Stream stream) override;

    // Throws std::logic_error if a step is running (steps do not nest), and std::invalid_argument
    // for a label that no kind can have. Returns how the requests since the last step were served.
    StepEnd begin_step(std::int32_t label);
    StepEnd end_step();

    // Replaces the book in force; blocks in the arena stay. Throws OutOfDeviceMemory or
    // DeviceCallError, with the former book still in force, and std::logic_error within a step.
    void adopt_book(Book book);
    // Drops the book: its arena becomes ordinary memory.
    void drop_book();
    // Keeps the arena of a book.
    std::size_t give_back() override;

    std::vector<ArenaBlock> blocks_in_arena() const;

    std::vector<LogEntry> take_log();
    void drop_log();
    Figures figures() const;
    void reset_peaks();
    GaplessStatistics statistics() const override;
    void reset_statistics_peaks() override;
    const GaplessGauge& gauge() const override { return statistics_.gauge(); }
    std::vector<SegmentOfBlocks> segments() const override;
    std::optional<GaplessSegment> segment_of(Address address) const override;
    std::optional<GaplessBlock> block_of(Address address) const override;
    bool owns(Address address) const override;
    // The first mismatches; and the number of all mismatches of each MismatchKind.
    std::vector<Mismatch> mismatches() const;
    std::vector<std::int64_t> mismatch_counts() const;
    // The listener is called for each mismatch that is kept, in the requesting thread, without the
    // lock.
    void on_mismatch(std::function<void(const Mismatch&)> listener);
    bool is_checked() const { return check_ != nullptr; }
    bool is_plain() const { return heap_.is_plain(); }
    std::size_t page_bytes() const { return memory_.page_bytes(); }
    // Waits for the device. Returns the writes to free memory that were found since the last call.
    // Bytes are compared when they are handed out again; with `everywhere`, all free memory is
    // compared now as well. Returns nothing if the check is off. Throws DeviceCallError.
    std::vector<Overwrite> take_overwrites(bool everywhere);
    // Checks all invariants of the heap. For tests.
    void check() const;

    std::mutex& mutex() const override { return mutex_; }

  private:
    using Lock = std::unique_lock<std::mutex>;

    Block* serve(Lock& lock, std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    // A request without a planned place, or whose planned place is occupied.
    struct Wanted {
        std::size_t bytes;
        Stream stream;
        bool is_planned;  // the plan expects it, and has no place for it
        Placement placement;
    };

    Block* place_as_planned(std::int64_t offset, std::size_t bytes, Stream stream);
    Block* place(Lock& lock, const Wanted& wanted);
    void release_spare();
    // Called if the heap has no free range for the request: grows the heap within the bound.
    Block* place_with_more(Lock& lock, const Wanted& wanted);
    Block* place_within_bound(const Wanted& wanted);
    Block* place_with_idle(const Wanted& wanted, const std::vector<ArenaRange>& kept);
    // Waits for the device without the lock, then unmaps the frames and makes them spare.
    void take_out(Lock& lock, const BlockHeap::Leaving& leaving);
    // Waits for streams, then frees the withheld blocks.
    void settle(Lock& lock);
    std::size_t give_back(Lock& lock, std::size_t arena_kept);
    std::size_t arena_kept() const { return book_.arena_bytes(); }
    Placement placement() const;
    // Returns true if reserving `more` bytes for a request of `bytes` bytes would exceed the bound.
    bool is_above_bound(std::size_t bytes, std::size_t more) const;
    void map_arena(std::size_t bytes);
    template <class Gather>
    void gather(const Gather& gather_frames);
    void restore_arena(Lock& lock);
    void retire_excess();
    void write(const LogEntry& entry);
    void count(const StepEnd& end);
    void measure_reserved(bool moves_once = false);
    void keep(Mismatch& mismatch);

    const std::unique_ptr<OverwriteCheck> check_;  // null if the check is off
    DeviceMemory& memory_;
    mutable std::mutex mutex_;
    BlockStatistics statistics_;
    BlockHeap heap_;
    Book book_;
    bool in_step_ = false;
    std::int64_t step_ = 0;
    Figures figures_;
    std::int64_t requested_bytes_ = 0, allocated_bytes_ = 0;  // current bytes
    std::int64_t next_request_ = 0;
    MemoryBound bound_;
    std::size_t moved_before_ = 0;  // bytes of frames that had moved at reset_peaks()
    std::int64_t step_reserved_peak_ = 0;

    std::vector<LogEntry> log_;
    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> mismatch_counts_;
    std::int64_t next_mismatch_ = 0;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener_;
};

}  // namespace gapless::runtime
