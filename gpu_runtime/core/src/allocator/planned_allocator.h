// The allocator below PyTorch's: serves every request at its planned place, or at the next best.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/figure_adaptor.h"
#include "allocator/heap_segments.h"
#include "allocator/mismatch_adaptor.h"
#include "allocator/overwrite_adaptor.h"
#include "allocator/overwrite_check.h"
#include "allocator/planned_blocks.h"
#include "allocator/serving_allocator.h"
#include "device/device_memory.h"
#include "device/known_waits.h"
#include "device/limited_memory.h"

namespace gapless::runtime {

// Thread-safe. One lock guards all state. The lock is not held while Python runs, so a thread that
// waits for it may hold the interpreter lock. It is not held while the host waits for the device
// either.
class PlannedAllocator final : public ServingAllocator {
  public:
    // With `is_plain`, memory comes from plain allocations: see DeviceMemory. With `is_checked`,
    // writes to free memory are searched for: see Note [Writes after free]. Throws DeviceCallError
    // if the device cannot do so.
    // `share_of_moves` is the share of time that moves below the shadow may take.
    explicit PlannedAllocator(DeviceMemory& memory, bool is_plain = false, bool is_checked = false,
                              double share_of_moves = MoveBudget::kUnlimited);

    Address allocate(std::size_t bytes, Stream stream) override;
    // Plain memory is passed on: it would need calls that end a capture.
    bool begin_pool(PoolId pool) override;
    Address allocate_in_pool(PoolId pool, std::size_t bytes, Stream stream) override;
    void end_capture(PoolId pool) override;
    void end_pool(PoolId pool) override;
    // See GraphMemory.
    void set_exclusive_graphs(bool is_exclusive);
    void lend(PoolId pool);
    bool free(Address address) noexcept override;
    bool use_on(Address address, Stream stream) override;
    void limit(std::size_t bytes) override;

    // Throws std::logic_error if a step is running (steps do not nest), and std::invalid_argument
    // for a negative label.
    StepEnd begin_step(std::int32_t label);
    // A step that an exception ended is not `completed`, and teaches nothing.
    StepEnd end_step(bool completed);
    // The kinds of step to be planned together; empty if all that repeat are planned.
    std::vector<StepKind> to_plan() const;
    std::vector<StepKind> kinds() const;
    bool has_plans() const;
    // A row for each block in use, by address: address, bytes, stream (kNoStream for a block of a
    // tag), kind of the step that requested it, or -1, and number of the request in that step.
    std::vector<std::array<std::int64_t, 5>> blocks_in_use() const;

    // Replaces the plans in force; blocks in the arena stay. Throws std::invalid_argument,
    // OutOfDeviceMemory or DeviceCallError, with the former plans still in force, and
    // std::logic_error within a step.
    void adopt(std::vector<StepPlan> plans, std::size_t arena_bytes);
    // Keeps the arena of the plans.
    std::size_t give_back() override;

    // Gives requests of the calling thread a tag from now on; the empty tag is none. Returns the
    // tag before.
    std::string set_tag(const std::string& tag);
    // Each pauses or resumes the memory of a tag, or without one all memory, as memory_pause.h
    // says. Throws std::invalid_argument for an unknown tag, and std::logic_error for plain memory
    // and while a graph is captured; then nothing changes.
    std::size_t pause(const std::optional<std::string>& tag, bool keeps);
    std::size_t resume(const std::optional<std::string>& tag);
    std::vector<std::pair<Address, std::size_t>> paused_blocks() const;

    Figures figures() const;
    void reset_peaks();
    GaplessStatistics statistics() const override;
    void reset_statistics_peaks() override;
    const GaplessGauge& gauge() const override { return blocks_.statistics().gauge(); }
    std::vector<SegmentOfBlocks> segments() const override;
    std::optional<GaplessSegment> segment_of(Address address) const override;
    std::optional<GaplessBlock> block_of(Address address) const override;
    bool owns(Address address) const override;
    // The first mismatches; and the number of all mismatches of each MismatchKind.
    std::vector<Mismatch> mismatches() const;
    std::vector<std::int64_t> mismatch_counts() const;
    // The listener is called for each mismatch that is kept, in the requesting thread, without the
    // lock.
    void on_mismatch(MismatchListener listener);
    bool is_checked() const { return check_ != nullptr; }
    bool is_plain() const { return blocks_.heap().blocks().is_plain(); }
    std::size_t page_bytes() const { return blocks_.heap().page_bytes(); }
    // Waits for the device. Returns the writes to free memory that were found since the last call.
    // Bytes are compared when they are handed out again; with `everywhere`, all free memory is
    // compared now as well. Returns nothing if the check is off. Throws DeviceCallError.
    std::vector<Overwrite> take_overwrites(bool everywhere);
    // Checks all invariants of the heap. For tests.
    void check() const;

    std::mutex& mutex() const override { return mutex_; }

  private:
    using Blocks = MismatchAdaptor<FigureAdaptor<OverwriteAdaptor<PlannedBlocks>>>;

    Heaps heaps_of(const std::optional<std::string>& tag);

    LimitedMemory limited_;
    KnownWaits device_;
    const std::unique_ptr<OverwriteCheck> check_;  // null if the check is off
    mutable std::mutex mutex_;
    Blocks blocks_;
};

}  // namespace gapless::runtime
