#include "allocator/serving_table.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "device/cuda_memory.h"

namespace gapless::runtime {

namespace {

std::array<std::atomic<ServingAllocator*>, GAPLESS_DEVICES> installed{};
// One past the largest device number with an allocator. Every free of PyTorch's searches up to
// here.
std::atomic<std::int32_t> installed_end{0};

ServingAllocator* allocator_of(std::int32_t device) {
    if (device < 0 || device >= GAPLESS_DEVICES) return nullptr;
    return installed[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
}

// Calls `ask` for the allocators one after the other until one returns true.
template <class Ask>
bool any_of_them(Ask ask) noexcept {
    const std::int32_t end = installed_end.load(std::memory_order_acquire);
    for (std::int32_t device = 0; device < end; ++device) {
        ServingAllocator* allocator = allocator_of(device);
        if (allocator != nullptr && ask(device, *allocator)) return true;
    }
    return false;
}

// Around a fork. A data loader may fork a worker while other threads allocate, and the worker may
// free blocks; in the worker all locks are free.
void lock_all() {
    for (std::int32_t device = 0; device < GAPLESS_DEVICES; ++device) {
        if (ServingAllocator* allocator = allocator_of(device)) allocator->mutex().lock();
    }
}

void unlock_all() {
    for (std::int32_t device = 0; device < GAPLESS_DEVICES; ++device) {
        if (ServingAllocator* allocator = allocator_of(device)) allocator->mutex().unlock();
    }
}

// Returns 0 on any failure; PyTorch's own allocator then serves the request.
std::uint64_t allocate(std::int32_t device, std::uint64_t bytes, std::uint64_t stream) {
    ServingAllocator* allocator = allocator_of(device);
    if (allocator == nullptr) return 0;
    try {
        return allocator->allocate(bytes, stream);
    } catch (const std::exception&) {
        return 0;
    }
}

bool begin_pool(std::int32_t device, std::uint64_t pool) {
    ServingAllocator* allocator = allocator_of(device);
    return allocator != nullptr && allocator->begin_pool(pool);
}

std::uint64_t allocate_in_pool(std::int32_t device, std::uint64_t pool, std::uint64_t bytes,
                               std::uint64_t stream) {
    ServingAllocator* allocator = allocator_of(device);
    return allocator == nullptr ? 0 : allocator->allocate_in_pool(pool, bytes, stream);
}

bool end_capture(std::int32_t device, std::uint64_t pool) {
    ServingAllocator* allocator = allocator_of(device);
    if (allocator == nullptr) return true;
    try {
        allocator->end_capture(pool);
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

void end_pool(std::int32_t device, std::uint64_t pool) {
    if (ServingAllocator* allocator = allocator_of(device)) allocator->end_pool(pool);
}

bool free_block(std::uint64_t address) {
    return any_of_them(
        [&](std::int32_t, ServingAllocator& allocator) { return allocator.free(address); });
}

bool owns(std::uint64_t address) {
    return any_of_them(
        [&](std::int32_t, ServingAllocator& allocator) { return allocator.owns(address); });
}

bool use_on(std::uint64_t address, std::uint64_t stream) {
    return any_of_them([&](std::int32_t, ServingAllocator& allocator) {
        return allocator.use_on(address, stream);
    });
}

std::uint64_t give_back(std::int32_t device) {
    ServingAllocator* allocator = allocator_of(device);
    if (allocator == nullptr) return 0;
    try {
        return allocator->give_back();
    } catch (const std::exception&) {
        // The program did not ask for this call, and the next call tries again.
        return 0;
    }
}

void limit(std::int32_t device, std::uint64_t bytes) {
    if (ServingAllocator* allocator = allocator_of(device)) allocator->limit(bytes);
}

// Makes memory of `device` accessible from `peer`, if `peer` has no allocator: see Note [Devices
// that reach each other]. A CudaMemory for the peer is made once for this purpose.
void open_to(std::int32_t device, std::int32_t peer) {
    if (allocator_of(device) == nullptr || allocator_of(peer) != nullptr) return;
    static std::mutex opening;
    static std::set<std::int32_t> opened;
    const std::lock_guard lock(opening);
    if (opened.contains(peer)) return;
    try {
        new CudaMemory(peer);
        opened.insert(peer);
    } catch (const std::exception&) {
        // Copies from there take another way.
    }
}

// Writes what an allocator has at an address, with the number of its device. Returns false if none
// has.
template <class Found>
bool find_at(std::uint64_t address, Found* target,
             std::optional<Found> (ServingAllocator::*find)(Address) const) {
    return any_of_them([&](std::int32_t device, const ServingAllocator& allocator) {
        const std::optional<Found> found = (allocator.*find)(address);
        if (!found) return false;
        *target = *found;
        target->device = device;
        return true;
    });
}

bool block_of(std::uint64_t address, GaplessBlock* block) {
    return find_at(address, block, &ServingAllocator::block_of);
}

bool segment_of(std::uint64_t address, GaplessSegment* segment) {
    return find_at(address, segment, &ServingAllocator::segment_of);
}

void visit(std::int32_t device, const GaplessVisitor* visitor) {
    ServingAllocator* allocator = allocator_of(device);
    if (allocator == nullptr) return;
    for (auto& [segment, blocks, is_planned] : allocator->segments()) {
        segment.device = device;
        visitor->segment(visitor->context, &segment);
        for (GaplessBlock& block : blocks) {
            block.device = device;
            visitor->block(visitor->context, &block);
        }
    }
}

const GaplessGauge* gauge(std::int32_t device) {
    const ServingAllocator* allocator = allocator_of(device);
    return allocator == nullptr ? nullptr : &allocator->gauge();
}

void statistics(std::int32_t device, GaplessStatistics* found) {
    const ServingAllocator* allocator = allocator_of(device);
    *found = allocator == nullptr ? GaplessStatistics{} : allocator->statistics();
}

void reset_peaks(std::int32_t device) {
    if (ServingAllocator* allocator = allocator_of(device)) allocator->reset_statistics_peaks();
}

constexpr GaplessServing kTable{
    .version = GAPLESS_SERVING_VERSION,
    .bytes = sizeof(GaplessServing),
    .allocate = allocate,
    .begin_pool = begin_pool,
    .allocate_in_pool = allocate_in_pool,
    .end_capture = end_capture,
    .end_pool = end_pool,
    .passed_on = nullptr,
    .free = free_block,
    .owns = owns,
    .use_on = use_on,
    .give_back = give_back,
    .limit = limit,
    .open_to = open_to,
    .block_of = block_of,
    .segment_of = segment_of,
    .visit = visit,
    .gauge = gauge,
    .statistics = statistics,
    .reset_peaks = reset_peaks,
};

}  // namespace

void install(int device, ServingAllocator& allocator) {
    if (device < 0 || device >= GAPLESS_DEVICES) {
        throw std::out_of_range("devices are numbered from 0 to " +
                                std::to_string(GAPLESS_DEVICES - 1) + ", found " +
                                std::to_string(device));
    }
    ServingAllocator* none = nullptr;
    if (!installed[static_cast<std::size_t>(device)].compare_exchange_strong(none, &allocator)) {
        throw std::logic_error("device " + std::to_string(device) +
                               " has an allocator, whose blocks may be in use");
    }
    static const int forks = pthread_atfork(lock_all, unlock_all, unlock_all);
    if (forks != 0) throw std::runtime_error("pthread_atfork: no memory");
    for (std::int32_t end = installed_end; end <= device;) {
        if (installed_end.compare_exchange_weak(end, device + 1)) break;
    }
}

const GaplessServing& serving_table() { return kTable; }

}  // namespace gapless::runtime
