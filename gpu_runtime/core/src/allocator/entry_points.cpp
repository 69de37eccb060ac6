#include "allocator/entry_points.h"

#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>

#include "device/cuda_memory.h"

namespace gapless::runtime {

namespace {

std::array<std::atomic<PlannedAllocator*>, kMaxDevices> installed{};
std::mutex opening;

// A device that nobody installed anything for gets a heap at its first request.
PlannedAllocator& open_device(int device) {
    const std::lock_guard lock(opening);
    PlannedAllocator* allocator = installed.at(device).load();
    if (allocator == nullptr) {
        allocator = new PlannedAllocator(*new CudaMemory(device));
        installed.at(device).store(allocator);
    }
    return *allocator;
}

PlannedAllocator& allocator_of(int device) {
    PlannedAllocator* allocator = installed.at(device).load(std::memory_order_acquire);
    return allocator != nullptr ? *allocator : open_device(device);
}

}  // namespace

void install(int device, PlannedAllocator& allocator) {
    if (device < 0 || device >= kMaxDevices) {
        throw std::out_of_range("devices are numbered from 0 to " +
                                std::to_string(kMaxDevices - 1) + ", found " +
                                std::to_string(device));
    }
    installed[device].store(&allocator, std::memory_order_release);
}

}  // namespace gapless::runtime

#define GAPLESS_EXPORT extern "C" __attribute__((visibility("default"), used))

// Throws where memory is short: PyTorch turns the exception into an error of the operator.
GAPLESS_EXPORT void* gapless_allocate(ssize_t bytes, int device, void* stream) {
    using namespace gapless::runtime;
    return reinterpret_cast<void*>(allocator_of(device).allocate(static_cast<std::size_t>(bytes),
                                                                 reinterpret_cast<Stream>(stream)));
}

GAPLESS_EXPORT void gapless_free(void* block, ssize_t /*bytes*/, int device, void* /*stream*/) {
    using namespace gapless::runtime;
    allocator_of(device).free(reinterpret_cast<Address>(block));
}

// PyTorch does not say on which device; at most one knows the address.
GAPLESS_EXPORT void gapless_use_on(void* block, void* stream) {
    using namespace gapless::runtime;
    for (auto& allocator : installed) {
        if (PlannedAllocator* found = allocator.load()) {
            found->use_on(reinterpret_cast<Address>(block), reinterpret_cast<Stream>(stream));
        }
    }
}

GAPLESS_EXPORT void gapless_give_back() {
    using namespace gapless::runtime;
    for (auto& allocator : installed) {
        if (PlannedAllocator* found = allocator.load()) found->give_back();
    }
}
