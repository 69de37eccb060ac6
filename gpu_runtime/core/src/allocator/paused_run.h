// Memory whose frames went back to the device while its blocks stay in use.
#pragma once

#include <cstddef>
#include <exception>
#include <map>
#include <memory>

#include "allocator/block.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Pinned memory of the host, for the contents of paused blocks.
class HostMemory {
  public:
    // Throws OutOfHostMemory.
    HostMemory(DeviceMemory& memory, std::size_t bytes)
        : memory_(memory), bytes_(bytes), begin_(memory.allocate_host(bytes)) {}
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;
    ~HostMemory() {
        try {
            memory_.await_copies();
            memory_.release_host(begin_);
        } catch (const std::exception&) {
            // The memory leaks; no code depends on it any more.
        }
    }

    std::size_t bytes() const { return bytes_; }
    Address begin() const { return begin_; }

  private:
    DeviceMemory& memory_;
    const std::size_t bytes_;
    const Address begin_;
};

// Adjacent blocks that were mapped throughout, and whose ends are ends of frames.
struct PausedRun {
    Block* first;
    Address end;
    std::shared_ptr<const HostMemory> copy;  // null if the contents are not kept
    Address kept = 0;                        // host address of the contents
};
using PausedRuns = std::map<Address, PausedRun>;  // by address of the first byte

}  // namespace gapless::runtime
