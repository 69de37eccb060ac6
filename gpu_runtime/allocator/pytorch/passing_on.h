// An allocator for PyTorch that passes every call on to another one. Only this file knows the
// differences between versions of PyTorch; it supports 2.11 to 2.15.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/headeronly/version.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11 || TORCH_VERSION_MINOR > 15
#error "the decorator of PyTorch's allocator is written for PyTorch 2.11 to 2.15"
#endif
#define GAPLESS_TORCH_IS_AT_LEAST(minor) (TORCH_VERSION_MINOR >= (minor))

namespace gapless {

using namespace c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

// Calls `visit` with each statistic by size in `stats`, and the same statistic in `others`.
template <class Visit>
void for_each_stat(DeviceStats& stats, const DeviceStats& others, Visit visit) {
    for (StatArray DeviceStats::* const member :
         {&DeviceStats::allocation, &DeviceStats::segment, &DeviceStats::active,
          &DeviceStats::inactive_split, &DeviceStats::allocated_bytes, &DeviceStats::reserved_bytes,
          &DeviceStats::active_bytes, &DeviceStats::inactive_split_bytes,
          &DeviceStats::requested_bytes}) {
        for (std::size_t size = 0; size < (stats.*member).size(); ++size) {
            visit((stats.*member)[size], (others.*member)[size]);
        }
    }
}

// Raises the statistics that only PyTorch's allocator has to at least the peaks in `before`.
inline void raise_own_peaks(DeviceStats& stats, const DeviceStats& before) {
    const auto raise = [](Stat& stat, const Stat& other) {
        stat.peak = std::max(stat.peak, other.peak);
    };
    raise(stats.oversize_allocations, before.oversize_allocations);
    raise(stats.oversize_segments, before.oversize_segments);
#if GAPLESS_TORCH_IS_AT_LEAST(13)
    for (const auto& [pool, others] : before.reserved_bytes_by_private_pools) {
        StatArray& own = stats.reserved_bytes_by_private_pools[pool];
        for (std::size_t size = 0; size < own.size(); ++size) raise(own[size], others[size]);
    }
#endif
}

// A block with the deleter by which the allocator that made it knows it.
struct Borrowed {
    Borrowed(const DataPtr& its, c10::DeleterFnPtr deleter)
        : block(its.get(), its.get(), deleter, its.device()) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { block.release_context(); }

    DataPtr block;
};

class PassingOn : public CUDAAllocator {
  public:
    explicit PassingOn(CUDAAllocator& inner) : inner_(inner) {}

    DataPtr allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
    c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        inner_.copy_data(to, from, bytes);
    }
    bool initialized() override { return inner_.initialized(); }
    void emptyCache(MempoolId_t pool = {0, 0}) override { inner_.emptyCache(pool); }
    DeviceStats getDeviceStats(DeviceIndex device) override {
        return inner_.getDeviceStats(device);
    }
    void resetAccumulatedStats(DeviceIndex device) override {
        inner_.resetAccumulatedStats(device);
    }
    void resetPeakStats(DeviceIndex device) override { inner_.resetPeakStats(device); }
    std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex device) override {
        return inner_.getMemoryInfo(device);
    }
    void* raw_alloc(std::size_t bytes) override { return inner_.raw_alloc(bytes); }
    void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
        return inner_.raw_alloc_with_stream(bytes, stream);
    }
    void raw_delete(void* block) override { inner_.raw_delete(block); }
    void init(int devices) override { inner_.init(devices); }
    double getMemoryFraction(DeviceIndex device) override {
        return inner_.getMemoryFraction(device);
    }
    void setMemoryFraction(double fraction, DeviceIndex device) override {
        inner_.setMemoryFraction(fraction, device);
    }
    std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex device) override {
        return inner_.getExpandableSegmentSizes(device);
    }
    void enable(bool value) override { inner_.enable(value); }
    bool isEnabled() const override { return inner_.isEnabled(); }
    void cacheInfo(DeviceIndex device, std::size_t* largest) override {
        inner_.cacheInfo(device, largest);
    }
    void* getBaseAllocation(void* address, std::size_t* bytes) override {
        return inner_.getBaseAllocation(address, bytes);
    }
    using CUDAAllocator::recordStream;
    void recordStream(const DataPtr& block, c10::cuda::CUDAStream stream) override {
        inner_.recordStream(block, stream);
    }
    SnapshotInfo snapshot(MempoolId_t pool = {0, 0}, bool traces = true) override {
        return inner_.snapshot(pool, traces);
    }
    void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                             std::function<bool(cudaStream_t)> filter) override {
        inner_.beginAllocateToPool(device, pool, std::move(filter));
    }
    void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
        inner_.endAllocateToPool(device, pool);
    }
    void releasePool(DeviceIndex device, MempoolId_t pool) override {
        inner_.releasePool(device, pool);
    }
    int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
        return inner_.getPoolUseCount(device, pool);
    }
    void createOrIncrefPool(DeviceIndex device, MempoolId_t pool,
                            std::shared_ptr<CUDAAllocator> allocator = nullptr) override {
        inner_.createOrIncrefPool(device, pool, std::move(allocator));
    }
    void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
        inner_.setUseOnOOM(device, pool, use);
    }
    void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
        inner_.setNoSplit(device, pool);
    }
    bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t pool,
                                  const std::unordered_set<void*>& expected) override {
        return inner_.checkPoolLiveAllocations(device, pool, expected);
    }
    ShareableHandle shareIpcHandle(void* block) override { return inner_.shareIpcHandle(block); }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
        return inner_.getIpcDevPtr(std::move(handle));
    }
    bool isHistoryEnabled() override { return inner_.isHistoryEnabled(); }
    void recordHistory(bool enabled, CreateContextFn recorder, std::size_t most_entries,
                       RecordContext when, bool clear,
                       const std::vector<std::string>& skipped) override {
        inner_.recordHistory(enabled, recorder, most_entries, when, clear, skipped);
    }
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& entry) override {
        inner_.recordAnnotation(entry);
    }
    void pushCompileContext(std::string& context) override { inner_.pushCompileContext(context); }
    void popCompileContext() override { inner_.popCompileContext(); }
    void setUserMetadata(const std::string& metadata) override { inner_.setUserMetadata(metadata); }
    std::string getUserMetadata() override { return inner_.getUserMetadata(); }
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
        inner_.attachOutOfMemoryObserver(std::move(observer));
    }
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
        inner_.attachAllocatorTraceTracker(std::move(tracker));
    }
    void enablePeerAccess(DeviceIndex device, DeviceIndex opened) override {
        inner_.enablePeerAccess(device, opened);
    }
    cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                            std::size_t bytes, cudaStream_t stream, bool is_peer) override {
        return inner_.memcpyAsync(to, to_device, from, from_device, bytes, stream, is_peer);
    }
    std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex device,
                                                       MempoolId_t pool) override {
        return inner_.getCheckpointState(device, pool);
    }
    CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                           std::shared_ptr<AllocatorState> state) override {
        CheckpointDelta delta = inner_.setCheckpointPoolState(device, std::move(state));
        for (DataPtr& block : delta.dataptrs_allocd) adopt(block);
        return delta;
    }
    std::string name() override { return inner_.name(); }

#if GAPLESS_TORCH_IS_AT_LEAST(12)
    std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* address) override {
        const auto own = own_context_of(address);
        return own ? own : inner_.getContextForPointer(address);
    }
    void attachOomRejectionObserver(OomRejectionObserver observer) override {
        inner_.attachOomRejectionObserver(std::move(observer));
    }
#endif
#if GAPLESS_TORCH_IS_AT_LEAST(13)
    void markCaptureBegin(DeviceIndex device) override { inner_.markCaptureBegin(device); }
    void markCaptureEnd(DeviceIndex device) override { inner_.markCaptureEnd(device); }
    DataPtr allocateWithAddress(std::size_t bytes, void* address) override {
        DataPtr block = inner_.allocateWithAddress(bytes, address);
        adopt(block);
        return block;
    }
#endif
#if GAPLESS_TORCH_IS_AT_LEAST(14)
    bool supportsUserMetadata() override { return inner_.supportsUserMetadata(); }
    void annotateMemory(const void* address, const std::string& metadata) override {
        if (!annotate_own(address, metadata)) inner_.annotateMemory(address, metadata);
    }
#endif

  protected:
    // Makes a block of the inner allocator be freed through this one.
    virtual void adopt(DataPtr& block) = 0;
    // Returns the place in the program that requested a block of this allocator; null if unknown.
    virtual std::shared_ptr<c10::GatheredContext> own_context_of(const void* address) = 0;
    // Adds text to the history of a block of this allocator; returns false if it has no such block.
    virtual bool annotate_own(const void* address, const std::string& metadata) = 0;

    CUDAAllocator& inner_;
};

}  // namespace gapless
