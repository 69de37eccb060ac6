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

// Note [Memory in bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Free memory in pieces is of no use to a larger request, and memory that is taken from
// the device for that request stays reserved. An allocator that only reuses free ranges reserves 5
// to 20 % more than the live peak. Physical memory has no address of its own, so it can move to a
// new address.
// Approach. The heap may create new pages while reserved bytes stay within a small share above the
// live peak. Beyond that bound, idle frames move to where memory is needed, largest free ranges
// first. All work in these frames must be done, so the host waits for the device, without holding
// the lock. A steady program stops moving frames after a few steps, because free ranges of the
// right lengths then exist. For a program that never becomes steady, moves are rationed by the
// number of requests. When the ration is spent, new memory is created up to a larger share, and
// beyond that share frames move regardless of the ration: a step of many microbatches before the
// first plan once spent the ration and then reserved twice the live peak. After eight consecutive
// steps in which frames moved, memory is created up to a middle share, so that free ranges become a
// little longer than needed.
// Limits. A move waits for all work submitted before. Frames move as a whole: if small blocks lie
// in many frames, as with sizes that never recur, less memory is idle than free.
// The arena and the rest. A request that no plan expects gets idle bytes of the arena before the
// bound is exceeded, if such requests ended with their step the last time. Otherwise the request
// may be optimizer state, and a block that stays in the arena blocks places in every later step.
// Such requests get idle bytes of the arena only before a larger share is exceeded, and the next
// book is planned around them. If the idle bytes of the arena are in pieces and no piece is long
// enough, their frames move too, above that larger share: one block that stayed in its place once
// made the largest request of a step reserve its bytes twice. A place that lost its memory so gets
// memory back, from memory idle elsewhere, when a request comes to it or when the step ends. A new
// arena is not mapped as a whole while blocks of the former book are still alive elsewhere, such as
// gradients that several steps accumulate: it gets the idle memory now, and the rest when requests
// come to its places.

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
        bool may_use_arena;
        Placement placement;
    };

    Block* place_as_planned(Lock& lock, std::int64_t offset, std::size_t bytes, Stream stream);
    Block* place(Lock& lock, const Wanted& wanted);
    void release_spare();
    // Called if the heap has no free range for the request: grows the heap within the bound.
    Block* place_with_more(Lock& lock, const Wanted& wanted);
    Block* place_within_bound(Lock& lock, const Wanted& wanted, std::size_t more);
    // Waits for the device without the lock, then unmaps the frames and makes them spare.
    void take_out(Lock& lock, const BlockHeap::Leaving& leaving);
    // Waits for streams, then frees the withheld blocks.
    void settle(Lock& lock);
    std::size_t give_back(Lock& lock, std::size_t arena_kept);
    std::size_t arena_kept() const { return book_.arena_bytes(); }
    Placement placement(bool is_unknown) const;
    FrameSize frame_size(const Wanted& wanted) const;
    // Returns true if reserving `more` bytes for a request of `bytes` bytes would exceed the live
    // peak by more than 1 / `share` of it.
    bool is_above(std::int64_t share, std::size_t bytes, std::size_t more) const;
    void map_arena(std::size_t bytes);
    void restore_arena(Lock& lock);
    // The share in force: beyond 1 / bound() above the live peak, frames move.
    std::int64_t bound() const;
    bool may_move(std::size_t bytes, std::size_t more) const;
    void move(Lock& lock, const BlockHeap::Leaving& leaving);
    void judge_unknown(bool& ended, bool begins);
    void give_back_after_step(Lock& lock);
    // Reserved bytes outside of the arena that no block uses.
    std::int64_t idle_bytes() const;
    void write(const LogEntry& entry);
    void count(const StepEnd& end);
    void measure_reserved();
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
    // The requests of this step that no plan expects, and the bytes of them that still live.
    // `within_` and `between_` say whether such requests are likely to end with their segment,
    // within steps and between steps; they follow the last segment of that sort.
    struct Unknown {
        std::int64_t number = 0;  // of the segment: a step, or what runs between two
        std::size_t requested = 0, living = 0;
        // False before the first step: blocks that are made there usually stay.
        bool outlives_rarely = false;
    };
    Unknown unknown_;
    bool within_ = false, between_ = true;
    bool had_unknown_ = false;  // whether the last segment had unknown requests
    std::int64_t given_back_ = 0;
    std::int64_t live_peak_ = 0;  // peak of allocated bytes since the beginning
    std::int64_t moved_frames_ = 0, moved_bytes_ = 0, moved_before_step_ = 0;
    std::int64_t restless_steps_ = 0;  // consecutive steps in which frames moved
    std::int64_t step_reserved_peak_ = 0;

    std::vector<LogEntry> log_;
    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> mismatch_counts_;
    std::int64_t next_mismatch_ = 0;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener_;
};

}  // namespace gapless::runtime
