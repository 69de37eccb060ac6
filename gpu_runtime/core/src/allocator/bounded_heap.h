// The heap within its bound: finds a place for every request, and gives idle memory back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator/block_heap.h"
#include "allocator/block_statistics.h"
#include "allocator/memory_bound.h"
#include "allocator/repeated_steps.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Guards an allocator.
using Lock = std::unique_lock<std::mutex>;

// Releases a lock while the host waits for the device.
class Unlocked {
  public:
    explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;
    ~Unlocked() { lock_.lock(); }

  private:
    Lock& lock_;
};

class BoundedHeap {
  public:
    // `all` are the heaps on this device, this one included. They share the statistics and the
    // bound, and give idle memory back when one of them finds the device full.
    BoundedHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics,
                MemoryBound& bound, const std::vector<BoundedHeap*>& all);

    BlockHeap& blocks() { return blocks_; }
    const BlockHeap& blocks() const { return blocks_; }
    std::size_t page_bytes() const { return memory_.page_bytes(); }

    // A request without a planned place, or whose planned place is occupied.
    struct Wanted {
        std::size_t bytes;
        Stream stream;
    };
    // Returns a block for the request. If it needs frames of places, the step leaves its plan.
    // Throws OutOfDeviceMemory, DeviceCallError.
    Block* place(Lock& lock, const Wanted& wanted, RepeatedSteps& steps) {
        Block* block = blocks_.place(wanted.bytes, wanted.stream);
        return block != nullptr ? block : place_with_more(lock, wanted, steps);
    }
    // Returns a block at an offset of the arena, or null if the place is occupied.
    Block* place_at(std::int64_t offset, std::size_t bytes, Stream stream,
                    const RepeatedSteps& steps) {
        Block* block = blocks_.place_at(offset, bytes, stream);
        return block != nullptr ? block : place_with_frames(offset, bytes, stream, steps);
    }
    // Returns true if reserving `more` bytes for a request of `bytes` bytes would exceed the bound.
    bool is_above_bound(std::size_t bytes, std::size_t more) const;
    // The same for places of plans: see Note [Memory in bounds].
    bool is_above_bound_of_places(std::size_t bytes, std::size_t more) const;
    // Maps the first `bytes` bytes of the arena. Above the bound, only spare frames are mapped, if
    // `is_bounded`. Throws OutOfDeviceMemory, DeviceCallError.
    void map_arena(std::size_t bytes, bool is_bounded);
    // As BlockHeap does, as far as the device allows.
    void gather_for_arena(std::size_t offset, std::size_t bytes, std::size_t arena_kept);
    // Puts back gathered frames and gives spare ones back to the device, after each attempt to find
    // memory: they are reserved but lie in no segment, so statistics would not add up.
    void release_spare();
    // Counts the reserved bytes, after any change.
    void count_reserved();

    // Waits for streams, then frees the withheld blocks.
    void settle(Lock& lock);
    // Waits for the device and takes out all idle frames; in the arena only those behind its first
    // `arena_kept` bytes. They are spare afterwards.
    void take_out_idle(Lock& lock, std::size_t arena_kept);
    // Gives these frames back to the device, and returns the number of bytes.
    std::size_t give_back(Lock& lock, std::size_t arena_kept);
    // Notes that all heaps gave back their idle memory.
    void note_given_back() { bound_.given_back(reserved_bytes()); }
    // Gives back all idle memory of all heaps.
    void give_back_everywhere(Lock& lock);
    // Gives idle memory beyond `most` bytes back to the device, as soon as its streams are done.
    void retire_above(std::int64_t most, std::size_t arena_kept);

  private:
    bool is_above_shadow(std::size_t missing) const;
    std::size_t reserved_bytes() const;
    void take_out(Lock& lock, const BlockHeap::Leaving& leaving);
    Block* place_with_more(Lock& lock, const Wanted& wanted, RepeatedSteps& steps);
    Block* grow(Lock& lock, const Wanted& wanted, RepeatedSteps& steps);
    Block* place_within_bound(const Wanted& wanted, RepeatedSteps& steps);
    Block* place_in_idle(const Wanted& wanted, std::size_t arena_kept);
    Block* place_with_frames(std::int64_t offset, std::size_t bytes, Stream stream,
                             const RepeatedSteps& steps);
    template <class Gather>
    void gather(const Gather& gather_frames);

    DeviceMemory& memory_;
    ReservedPart reserved_part_;
    const std::vector<BoundedHeap*>& all_;
    BlockHeap blocks_;
    MemoryBound& bound_;
};

}  // namespace gapless::runtime
