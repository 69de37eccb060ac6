// The interface of an allocator below PyTorch's, which the serving table calls.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device_memory.h"
#include "online/online_segment.h"
#include "serving.h"

namespace gapless::runtime {

// A range of addresses with memory, and the blocks that cover it.
struct SegmentOfBlocks {
    GaplessSegment segment;
    std::vector<GaplessBlock> blocks;
    // True if a plan places its blocks.
    bool is_planned = false;
};

// An allocator for one device. It does not know the device's number. Thread-safe.
class ServingAllocator {
  public:
    ServingAllocator() = default;
    ServingAllocator(const ServingAllocator&) = delete;
    ServingAllocator& operator=(const ServingAllocator&) = delete;
    virtual ~ServingAllocator() = default;

    // Returns 0 for 0 bytes. Throws OutOfDeviceMemory, DeviceCallError.
    virtual Address allocate(std::size_t bytes, Stream stream) = 0;
    // Captures into pools, which are no 0, as serving.h says. By default they are left to PyTorch.
    virtual bool begin_pool(PoolId /*pool*/) { return false; }
    virtual Address allocate_in_pool(PoolId /*pool*/, std::size_t /*bytes*/, Stream /*stream*/) {
        return 0;
    }
    virtual void end_capture(PoolId /*pool*/) {}
    virtual void end_pool(PoolId /*pool*/) {}
    // Returns true if the address was a block of this allocator. Never throws: freeing a tensor
    // cannot fail.
    virtual bool free(Address address) noexcept = 0;
    // Notes that another stream uses a block; the block's bytes return only after that work is
    // done. Returns true if the address is a block of this allocator.
    virtual bool use_on(Address address, Stream stream) = 0;
    // Waits for the device and gives idle memory back. Returns the number of bytes. Throws
    // DeviceCallError.
    virtual std::size_t give_back() = 0;
    // Says how many bytes to reserve at most. An online allocator has a setting for that.
    virtual void limit(std::size_t /*bytes*/) {}

    // Find the memory of this allocator in which an address lies.
    virtual bool owns(Address address) const = 0;
    virtual std::optional<GaplessBlock> block_of(Address address) const = 0;
    virtual std::optional<GaplessSegment> segment_of(Address address) const = 0;
    // Sorted by address.
    virtual std::vector<SegmentOfBlocks> segments() const = 0;

    // The statistics that PyTorch reports; peaks count since the last reset_statistics_peaks().
    virtual GaplessStatistics statistics() const = 0;
    virtual void reset_statistics_peaks() = 0;
    virtual const GaplessGauge& gauge() const = 0;

    // Locked around a fork, so that the child process does not inherit a lock that is held.
    virtual std::mutex& mutex() const = 0;
};

}  // namespace gapless::runtime
