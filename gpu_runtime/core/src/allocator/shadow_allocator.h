// PyTorch's allocator, simulated on the requests that ours serves: it bounds what ours reserves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "device/device_memory.h"
#include "device/ledger_memory.h"
#include "online/pytorch_expandable.h"

namespace gapless::runtime {

// Note [The shadow]
// ~~~~~~~~~~~~~~~~~
class ShadowAllocator {
  public:
    explicit ShadowAllocator(std::size_t device_bytes)
        : device_(kPageBytes, std::min(device_bytes, kMostBytes)), allocator_(device_, {}) {}

    Address allocate(std::size_t bytes, Stream stream) {
        try {
            return allocator_.allocate(bytes, stream);
        } catch (const OutOfDeviceMemory&) {
            return 0;
        }
    }
    void free(Address address) {
        if (address != 0) allocator_.free(address);
    }
    void give_back() { allocator_.give_back(); }
    std::int64_t reserved_bytes() const {
        return static_cast<std::int64_t>(allocator_.figures().reserved_bytes);
    }

  private:
    static constexpr std::size_t kPageBytes = std::size_t{2} << 20;
    static constexpr std::size_t kMostBytes = std::size_t{1} << 40;

    LedgerMemory device_;
    PytorchExpandable allocator_;
};

}  // namespace gapless::runtime
