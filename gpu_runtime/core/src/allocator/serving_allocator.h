// An allocator beneath PyTorch's: what the decorator asks of one, by way of the serving table.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "device/device_memory.h"
#include "serving.h"

namespace gapless::runtime {

// A range of addresses with memory behind it, and the blocks that cover it.
struct SegmentOfBlocks {
    GaplessSegment segment;
    std::vector<GaplessBlock> blocks;
};

// Of one device, whose number it does not know. Safe to call from any thread.
class ServingAllocator {
  public:
    ServingAllocator() = default;
    ServingAllocator(const ServingAllocator&) = delete;
    ServingAllocator& operator=(const ServingAllocator&) = delete;
    virtual ~ServingAllocator() = default;

    // Returns 0 for no bytes. Throws OutOfDeviceMemory, DeviceCallError.
    virtual Address allocate(std::size_t bytes, Stream stream) = 0;
    // Whether the block was one of ours. Never throws: what frees a tensor cannot fail.
    virtual bool free(Address address) noexcept = 0;
    // A stream that did not allocate a block uses it: its bytes come back when that is done.
    // Whether the block is one of ours.
    virtual bool use_on(Address address, Stream stream) = 0;
    // Waits for the device and gives back what nothing lives in. Returns how many bytes. Throws
    // DeviceCallError.
    virtual std::size_t give_back() = 0;

    // Whether an address lies in memory of ours, and in which.
    virtual bool owns(Address address) const = 0;
    virtual std::optional<GaplessBlock> block_of(Address address) const = 0;
    virtual std::optional<GaplessSegment> segment_of(Address address) const = 0;
    // By address.
    virtual std::vector<SegmentOfBlocks> segments() const = 0;

    // What PyTorch asks about, with the peaks since its own reset.
    virtual GaplessStatistics statistics() const = 0;
    virtual void reset_statistics_peaks() = 0;
    virtual const GaplessGauge& gauge() const = 0;

    // For a fork: the child must not find the lock taken by a thread that it does not have.
    virtual std::mutex& mutex() const = 0;
};

}  // namespace gapless::runtime
