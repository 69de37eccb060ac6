// An allocator of PyTorch's over the host's memory: what is decorated, in tests.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda_stand_in.h"
#include "passing_on.h"

namespace fake {

using namespace c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;

// Two devices of some bytes each; blocks are multiples of 512 bytes, and each is a segment.
class FakeAllocator : public CUDAAllocator {
  public:
    static constexpr std::size_t kCapacity = std::size_t{64} << 20;
    int uses_of_pool = 0;

    DataPtr allocate(std::size_t bytes) override {
        void* block = raw_alloc(bytes);
        return {block, block, &delete_block, c10::Device(c10::DeviceType::CUDA, device())};
    }
    void* raw_alloc(std::size_t bytes) override {
        if (bytes == 0) return nullptr;
        const std::size_t rounded = (bytes + 511) / 512 * 512;
        DeviceStats& stats = stats_[stand_in::device];
        const auto taken = static_cast<std::size_t>(stats.reserved_bytes[0].current);
        if (taken + taken_by_others[stand_in::device] + rounded > kCapacity) {
            ++stats.num_ooms;
            for (const auto& observer : observers_) observer(device(), bytes, kCapacity, 0);
            TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried ", bytes);
        }
        void* block = std::aligned_alloc(512, rounded);
        blocks_[block] = {bytes, rounded, stand_in::device, in_pool_ > 0};
        change(blocks_[block], 1);
        note(TraceEntry::ALLOC, block);
        return block;
    }
    void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t) override {
        return raw_alloc(bytes);
    }
    void raw_delete(void* block) override {
        if (block == nullptr) return;
        const auto found = blocks_.find(block);
        TORCH_CHECK(found != blocks_.end(), "invalid device pointer: ", block);
        note(TraceEntry::FREE_COMPLETED, block);
        change(found->second, -1);
        std::free(block);
        blocks_.erase(found);
    }
    c10::DeleterFnPtr raw_deleter() const override { return &delete_block; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        default_copy_data(to, from, bytes);
    }
    bool initialized() override { return true; }
    void emptyCache(MempoolId_t) override { called("emptyCache"); }
    DeviceStats getDeviceStats(DeviceIndex device) override {
        ++asked_for_statistics;
        return stats_[device];
    }
    void resetAccumulatedStats(DeviceIndex device) override {
        stats_[device].num_ooms = 0;
        gapless::for_each_stat(stats_[device], {},
                               [](auto& stat, const auto&) { stat.allocated = stat.freed = 0; });
    }
    void resetPeakStats(DeviceIndex device) override {
        gapless::for_each_stat(stats_[device], {},
                               [](auto& stat, const auto&) { stat.peak = stat.current; });
    }
    std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex) override {
        return {0, kCapacity};
    }
    void init(int) override { called("init"); }
    double getMemoryFraction(DeviceIndex) override { return fraction; }
    void setMemoryFraction(double value, DeviceIndex device) override {
        fraction = value;
        stand_in::device = device;
    }
    std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex) override { return {}; }
    void enable(bool value) override { is_enabled_ = value; }
    bool isEnabled() const override { return is_enabled_; }
    void cacheInfo(DeviceIndex, std::size_t* largest) override { *largest = 7; }
    void* getBaseAllocation(void* block, std::size_t* bytes) override {
        *bytes = blocks_.at(block).rounded;
        return block;
    }
    void recordStream(const DataPtr& block, c10::cuda::CUDAStream stream) override {
        // As PyTorch's own.
        if (block.get_deleter() != &delete_block) return called("recordStream of another's");
        TORCH_CHECK(blocks_.contains(block.get()), "no block");
        called("recordStream " + std::to_string(stream.id()));
    }
    SnapshotInfo snapshot(MempoolId_t, bool traces) override {
        SnapshotInfo info;
        for (const auto& [address, block] : blocks_) {
            auto& segment = info.segments.emplace_back();
            segment.device = static_cast<DeviceIndex>(block.device);
            segment.address = reinterpret_cast<std::size_t>(address);
            segment.total_size = segment.allocated_size = segment.active_size = block.rounded;
            auto& only = segment.blocks.emplace_back();
            only.size = block.rounded;
            only.requested_size = block.bytes;
            only.allocated = only.active = true;
        }
        info.device_traces.resize(2);
        if (!traces) return info;
        const auto converter = clock_.makeConverter();
        info.device_traces[0] = trace_;
        for (auto& entry : info.device_traces[0]) {
            entry.time_.t_ = converter(entry.time_.approx_t_) / 1000;
        }
        return info;
    }
    void beginAllocateToPool(DeviceIndex, MempoolId_t pool,
                             std::function<bool(cudaStream_t)>) override {
        TORCH_CHECK(pool.second != 13, "no such pool");
        ++in_pool_;
    }
    void endAllocateToPool(DeviceIndex, MempoolId_t) override { --in_pool_; }
    void releasePool(DeviceIndex, MempoolId_t) override { called("releasePool"); }
    int getPoolUseCount(DeviceIndex, MempoolId_t) override { return uses_of_pool; }
    ShareableHandle shareIpcHandle(void* block) override {
        TORCH_CHECK(blocks_.contains(block), "no block");
        return {5,
                "\x03"
                "c of the inner"};
    }
    std::shared_ptr<void> getIpcDevPtr(std::string) override { return nullptr; }
    bool isHistoryEnabled() override { return is_recording_; }
    void recordHistory(bool enabled, CreateContextFn, std::size_t, RecordContext, bool,
                       const std::vector<std::string>&) override {
        is_recording_ = enabled;
        trace_.clear();
    }
    void setUserMetadata(const std::string& metadata) override { metadata_ = metadata; }
    std::string getUserMetadata() override { return metadata_; }
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
        observers_.push_back(std::move(observer));
    }
#if GAPLESS_TORCH_IS_AT_LEAST(12)
    void attachOomRejectionObserver(OomRejectionObserver) override {
        called("attachOomRejectionObserver");
    }
#endif
    void attachAllocatorTraceTracker(AllocatorTraceTracker) override { called("attach tracker"); }
    void enablePeerAccess(DeviceIndex, DeviceIndex) override { called("enablePeerAccess"); }
    cudaError_t memcpyAsync(void*, int, const void*, int, std::size_t, cudaStream_t,
                            bool) override {
        called("memcpyAsync");
        return cudaSuccess;
    }
    std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex, MempoolId_t) override {
        return nullptr;
    }
    CheckpointDelta setCheckpointPoolState(DeviceIndex, std::shared_ptr<AllocatorState>) override {
        CheckpointDelta delta;
        delta.dataptrs_allocd.push_back(allocate(512));
        return delta;
    }
    std::string name() override { return "fake"; }

    std::size_t blocks() const { return blocks_.size(); }
    bool is_of_pool(void* block) const { return blocks_.at(block).is_of_pool; }
    std::vector<std::string> calls;
    int asked_for_statistics = 0;
    double fraction = 1;
    std::size_t taken_by_others[2] = {};

  private:
    struct Block {
        std::size_t bytes, rounded;
        int device;
        bool is_of_pool;
    };

    static void delete_block(void* block) { only->raw_delete(block); }
    static DeviceIndex device() { return static_cast<DeviceIndex>(stand_in::device); }
    void called(const std::string& what) { calls.push_back(what); }

    void change(const Block& block, int sign) {
        DeviceStats& stats = stats_[block.device];
        const std::size_t size = block.bytes <= (std::size_t{1} << 20) ? 1 : 2;
        for (const std::size_t type : {std::size_t{0}, size}) {
            for (auto member :
                 {&DeviceStats::allocation, &DeviceStats::active, &DeviceStats::segment}) {
                move((stats.*member)[type], sign);
            }
            for (auto member : {&DeviceStats::allocated_bytes, &DeviceStats::active_bytes,
                                &DeviceStats::reserved_bytes}) {
                move((stats.*member)[type], sign * static_cast<std::int64_t>(block.rounded));
            }
            move(stats.requested_bytes[type], sign * static_cast<std::int64_t>(block.bytes));
        }
    }
    static void move(c10::CachingAllocator::Stat& stat, std::int64_t amount) {
        stat.current += amount;
        stat.peak = std::max(stat.peak, stat.current);
        (amount > 0 ? stat.allocated : stat.freed) += std::abs(amount);
    }
    void note(TraceEntry::Action action, void* block) {
        if (!is_recording_) return;
        trace_.emplace_back(action, device(), reinterpret_cast<std::size_t>(block),
                            blocks_.at(block).bytes, nullptr, MempoolId_t{0, 0},
                            c10::getApproximateTime());
    }

    std::map<void*, Block> blocks_;
    DeviceStats stats_[2];
    int in_pool_ = 0;
    bool is_enabled_ = true, is_recording_ = false;
    std::string metadata_;
    std::vector<OutOfMemoryObserver> observers_;
    std::vector<TraceEntry> trace_;
    c10::ApproximateClockToUnixTimeConverter clock_;

  public:
    static inline FakeAllocator* only = nullptr;
};

}  // namespace fake
