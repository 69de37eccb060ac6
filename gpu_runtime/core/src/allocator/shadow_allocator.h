// PyTorch's allocators, simulated on the requests that ours serves: they bound what ours reserves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "allocator/block.h"
#include "device/device_memory.h"
#include "device/ledger_memory.h"
#include "online/pytorch_caching.h"
#include "online/pytorch_expandable.h"

namespace gapless::runtime {

// Note [The shadow]
// ~~~~~~~~~~~~~~~~~
// Rationale. Users compare planned memory with what PyTorch would reserve. A bound that is derived
// from live bytes is now above that and now far below, where it costs moves that nobody asked for.
// Approach. PyTorch's two allocators, with default and with expandable segments, serve the same
// requests over a ledger: they choose addresses, and nothing is allocated there. What the better of
// both would hold at this moment is the bound. The same classes replay recorded programs.
// Limits. The settings of a user (PYTORCH_CUDA_ALLOC_CONF) are not simulated. A request that a
// simulated device cannot serve is left out.
class ShadowAllocator {
  public:
    explicit ShadowAllocator(std::size_t device_bytes)
        : default_(device_bytes), expandable_(device_bytes) {}

    // In a private pool, or in the common one, which is 0.
    ShadowPlace allocate(std::size_t bytes, Stream stream, PoolId pool = 0) {
        return {default_.allocate(bytes, stream, pool), expandable_.allocate(bytes, stream, pool)};
    }
    void free(const ShadowPlace& place) {
        default_.free(place.by_default);
        expandable_.free(place.expandable);
    }
    void give_back() {
        default_.allocator.give_back();
        expandable_.allocator.give_back();
    }
    void end_pool(PoolId pool) {
        default_.allocator.end_pool(pool);
        expandable_.allocator.end_pool(pool);
    }
    std::int64_t default_bytes() const { return default_.reserved_bytes(); }
    std::int64_t expandable_bytes() const { return expandable_.reserved_bytes(); }
    std::int64_t reserved_bytes() const { return std::min(default_bytes(), expandable_bytes()); }

  private:
    // Pages of expandable segments. A ledger needs an end: no device has 1 TiB.
    static constexpr std::size_t kPageBytes = std::size_t{2} << 20;
    static constexpr std::size_t kMostBytes = std::size_t{1} << 40;

    template <class Allocator>
    struct Simulated {
        explicit Simulated(std::size_t device_bytes)
            : device(kPageBytes, std::min(device_bytes, kMostBytes)), allocator(device, {}) {}

        // Returns 0 if the device is full.
        Address allocate(std::size_t bytes, Stream stream, PoolId pool) {
            try {
                if (pool != 0) allocator.enter_pool(pool);
                return allocator.allocate(bytes, stream);
            } catch (const OutOfDeviceMemory&) {
                return 0;
            }
        }
        void free(Address address) {
            if (address != 0) allocator.free(address);
        }
        std::int64_t reserved_bytes() const {
            return static_cast<std::int64_t>(allocator.figures().reserved_bytes);
        }

        LedgerMemory device;
        Allocator allocator;
    };

    Simulated<PytorchCaching> default_;
    Simulated<PytorchExpandable> expandable_;
};

}  // namespace gapless::runtime
