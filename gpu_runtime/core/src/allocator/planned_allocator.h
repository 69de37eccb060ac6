// The allocator beneath PyTorch's: every request at its planned place, or at the next best one.
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

// Bytes are those of the moment, peaks and counts those since reset_peaks().
struct Figures {
    std::int64_t requested_bytes = 0, requested_peak = 0;
    std::int64_t allocated_bytes = 0, allocated_peak = 0;  // rounded up to blocks
    std::int64_t reserved_bytes = 0, reserved_peak = 0;    // physical memory
    std::int64_t arena_bytes = 0;                          // of it, the arena's
    std::int64_t live_peak = 0;  // of allocated bytes, since the beginning
    std::int64_t steps = 0, planned_steps = 0;
    std::int64_t planned_requests = 0;   // at their places
    std::int64_t escaping_requests = 0;  // expected, and without a place
    std::int64_t grown_requests = 0;     // expected, and larger than their places
    std::int64_t fallback_requests =
        0;  // in planned steps, at no place of the plan; grown ones too
    std::int64_t fallback_bytes = 0;
    std::int64_t step_bytes = 0;  // of all requests within steps
    std::int64_t missing_requests = 0;
    std::int64_t moved_bytes = 0;    // memory that went to other addresses
    std::int64_t refused_frees = 0;  // the device refused what a free needed
};

// A block in use in the arena; kind and slot are of the book in force when it was asked for.
struct ArenaBlock {
    std::int64_t offset, bytes, request;
    std::int32_t kind, slot;
};

// Note [Memory in bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Free memory that does not lie together is of no use to a larger request, and what is
// taken from the device because of it stays for good: whoever looks for holes alone takes 5 to 20 %
// more than ever lives. Physical memory has no address of its own, so it can come along.
// Approach. As long as what is taken from the device stays within a small share over the peak of
// what lives, memory is created. Beyond it idle frames, the largest free ranges first, go to where
// they are needed. Whoever used them must be done with them, so the host waits for the device,
// without the lock. A steady program stops to need it after a few steps, since ranges of the right
// lengths are then there. For one that never does, moves are rationed by the number of requests;
// then memory is created after all, up to a larger share, above which frames move all the same: a
// step of many microbatches before the first plan once spent the ration, and then took twice what
// lived. After eight steps in a row in which frames moved, memory is created up to a middle share,
// so that ranges are a little longer than needed.
// Limits. A move waits for what the device was given before. Frames move as a whole: where small
// blocks lie in many, as with sizes that never come again, less is idle than free.
// Between the arena and the rest: what no plan expects gets idle bytes of the arena before more
// memory than the bound, if such requests ended with their step the last time. Others may be the
// state of an optimizer, and what stays in the arena is in the way of every step to come; they get
// them before a larger share is taken, and the next book is planned around them. Where idle bytes
// of the arena are in pieces, of which none is long enough, their frames move as well, above that
// share: one block that stayed in a place once let the largest request of a step take its bytes
// twice. A place that lost its memory so gets it when a request comes to it, or when the step ends,
// from what is idle elsewhere by then. Nor is a new arena mapped as a whole beside what lies where
// no book has put it yet, such as gradients that several steps add to: it gets what is idle, and
// the rest as steps come to it.

// Safe to call from any thread. One lock guards everything; it is held neither while Python runs,
// so that a thread which waits for it may hold the interpreter, nor while the device is waited for.
class PlannedAllocator final : public ServingAllocator {
  public:
    // With `is_plain` memory comes by plain allocations: see DeviceMemory. With `is_checked` writes
    // to free memory are looked for: see Note [Writes after free]; throws DeviceCallError where the
    // device cannot do it.
    explicit PlannedAllocator(DeviceMemory& memory, bool is_plain = false, bool is_checked = false);

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) noexcept override;
    bool use_on(Address address, Stream stream) override;

    // Steps do not nest: throws std::logic_error, and std::invalid_argument for a label that no
    // kind can have. Returns how what ran between them was served.
    StepEnd begin_step(std::int32_t label);
    StepEnd end_step();

    // Takes the place of the book in force; what lies in the arena stays. Throws OutOfDeviceMemory,
    // DeviceCallError, with the former book in force, and std::logic_error within a step.
    void adopt_book(Book book);
    // The arena is memory like any other from then on.
    void drop_book();
    // But for the arena of a book.
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
    // The first ones, and how many there were of each kind, by MismatchKind.
    std::vector<Mismatch> mismatches() const;
    std::vector<std::int64_t> mismatch_counts() const;
    // Called without the lock, in the thread that asked, for each mismatch that is kept.
    void on_mismatch(std::function<void(const Mismatch&)> listener);
    bool is_checked() const { return check_ != nullptr; }
    // Waits for the device, and returns the writes to free memory that were found and not returned
    // before: where it was handed out again, and with `everywhere` in all that is free now. None
    // where nothing is checked. Throws DeviceCallError.
    std::vector<Overwrite> take_overwrites(bool everywhere);
    // Holds the heap against its rules. For tests.
    void check() const;

    std::mutex& mutex() const override { return mutex_; }

  private:
    using Lock = std::unique_lock<std::mutex>;

    Block* serve(Lock& lock, std::size_t bytes, Stream stream, std::optional<Mismatch>& mismatch);
    // A request that has no place, or another one's block lies there.
    struct Wanted {
        std::size_t bytes;
        Stream stream;
        bool may_use_arena;
        Placement placement;
    };

    Block* place_as_planned(Lock& lock, std::int64_t offset, std::size_t bytes, Stream stream);
    Block* place(Lock& lock, const Wanted& wanted);
    void release_spare();
    // The heap has no range for the request: grows it within the bound.
    Block* place_with_more(Lock& lock, const Wanted& wanted);
    Block* place_within_bound(Lock& lock, const Wanted& wanted, std::size_t more);
    // Waits, without the lock, and makes memory that is on its way out spare.
    void take_out(Lock& lock, const BlockHeap::Leaving& leaving);
    // What waits for streams comes back.
    void settle(Lock& lock);
    std::size_t give_back(Lock& lock, std::size_t arena_kept);
    std::size_t arena_kept() const { return book_.arena_bytes(); }
    Placement placement(bool is_unknown) const;
    FrameSize frame_size(const Wanted& wanted) const;
    // Whether a request that takes more memory would take more than a share above what lives.
    bool is_above(std::int64_t share, std::size_t bytes, std::size_t more) const;
    void map_arena(std::size_t bytes);
    void restore_arena(Lock& lock);
    // The share of the peak beyond which frames move.
    std::int64_t bound() const;
    bool may_move(std::size_t bytes, std::size_t more) const;
    void move(Lock& lock, const BlockHeap::Leaving& leaving);
    void judge_unknown(bool& ended, bool begins);
    void give_back_after_step(Lock& lock);
    // Memory outside of the arena in which nothing lives.
    std::int64_t idle_bytes() const;
    void write(const LogEntry& entry);
    void count(const StepEnd& end);
    void measure_reserved();
    void keep(Mismatch& mismatch);

    const std::unique_ptr<OverwriteCheck> check_;  // null where nothing is checked
    DeviceMemory& memory_;
    mutable std::mutex mutex_;
    BlockStatistics statistics_;
    BlockHeap heap_;
    Book book_;
    bool in_step_ = false;
    std::int64_t step_ = 0;
    Figures figures_;
    std::int64_t requested_bytes_ = 0, allocated_bytes_ = 0;  // of the moment
    std::int64_t next_request_ = 0;
    // Requests of this step that no plan knows, and what of them lives. Whether it is likely that
    // they end with the step, as they did in the last one within steps, and between two.
    struct Unknown {
        std::int64_t number = 0;  // of the step or what runs between two
        std::size_t requested = 0, living = 0;
        // What is made before the first step is there to stay.
        bool outlives_rarely = false;
    };
    Unknown unknown_;
    bool within_ = false, between_ = true;
    bool had_unknown_ = false;  // in what ended last
    std::int64_t given_back_ = 0;
    std::int64_t live_peak_ = 0;  // of allocated bytes, since the beginning
    std::int64_t moved_frames_ = 0, moved_bytes_ = 0, moved_before_step_ = 0;
    std::int64_t restless_steps_ = 0;  // in a row, in which frames moved
    std::int64_t step_reserved_peak_ = 0;

    std::vector<LogEntry> log_;
    std::vector<Mismatch> mismatches_;
    std::vector<std::int64_t> mismatch_counts_;
    std::int64_t next_mismatch_ = 0;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener_;
};

}  // namespace gapless::runtime
