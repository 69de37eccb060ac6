// Decorates PyTorch's allocator: the core serves requests first.
//
// compiled_decorator.py compiles this file at first use against the installed PyTorch. It needs the
// headers of PyTorch and of CUDA's runtime, and only the host's compiler.
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "event_history.h"
#include "joint_statistics.h"
#include "passing_on.h"
#include "serving.h"
#include "timed_allocator.h"

namespace gapless {

namespace {

class Decorator;
// Never destroyed, because tensors are freed until the process ends.
Decorator* decorator = nullptr;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }
std::uint64_t number(cudaStream_t stream) { return reinterpret_cast<std::uint64_t>(stream); }
// One half of a pool's identity is 0.
std::uint64_t number(MempoolId_t pool) { return (pool.first << 32U) | pool.second; }

// Note [Requests to the core]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Each replay of a captured graph writes to the addresses of its blocks, so these blocks
// belong to a pool of the graph. Most device calls of the core during a capture would end the
// capture; those that map pages do not.
// Approach. PyTorch's allocator serves all pools but those for which begin_pool() returns true: the
// core serves the streams that are captured into them, see Note [Frames of captured graphs].
// From beginAllocateToPool() to endAllocateToPool() on a device the core gets no other request
// of this device, from no stream and no thread, and no memory is given back. The program may free
// earlier blocks of the core meanwhile. Such a free makes no device call unless another stream uses
// the block; that block is freed when no capture runs any more. If the plan gives the bytes to
// another stream, the core does without the captured stream: see Note [Streams that are captured].
// An online allocator asks whether its stream is captured, see Note [Online allocators below
// PyTorch].
// Limits. Captures outside of PyTorch are not seen, as PyTorch does not see them either. If a
// capture ends with an error, PyTorch may keep its pool open; then the core gets no more requests
// of this device.
class Decorator final : public PassingOn {
  public:
    Decorator(CUDAAllocator& inner, const GaplessServing& core)
        : PassingOn(inner), core_(core), inner_deleter_(inner.raw_deleter()) {
        for (int device = 0; device < GAPLESS_DEVICES; ++device) {
            devices_[device].statistics.open(core, inner, static_cast<DeviceIndex>(device));
        }
        is_enabled_ = inner.isEnabled();
    }

    DataPtr allocate(std::size_t bytes) override {
        const DeviceIndex device = c10::cuda::current_device();
        const c10::Device place(c10::DeviceType::CUDA, device);
        cudaStream_t stream = nullptr;
        if (is_asked(device, bytes)) {
            stream = c10::cuda::getCurrentCUDAStream(device).stream();
            if (void* block = serve(device, bytes, stream)) return {block, block, &free, place};
        } else if (void* block = serve_captured(device, bytes)) {
            return {block, block, &free, place};
        }
        DataPtr block = pass_on(device, bytes, stream, [&] { return inner_.allocate(bytes); });
        adopt(block);
        return block;
    }

    void* raw_alloc(std::size_t bytes) override {
        const DeviceIndex device = c10::cuda::current_device();
        cudaStream_t stream = nullptr;
        if (is_asked(device, bytes)) {
            stream = c10::cuda::getCurrentCUDAStream(device).stream();
            if (void* block = serve(device, bytes, stream)) return block;
        } else if (void* block = serve_captured(device, bytes)) {
            return block;
        }
        return pass_on(device, bytes, stream, [&] { return inner_.raw_alloc(bytes); });
    }

    void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
        const DeviceIndex device = c10::cuda::current_device();
        if (is_asked(device, bytes)) {
            if (void* block = serve(device, bytes, stream)) return block;
        } else if (void* block = serve_captured(device, bytes, stream)) {
            return block;
        }
        return pass_on(device, bytes, stream,
                       [&] { return inner_.raw_alloc_with_stream(bytes, stream); });
    }

    void raw_delete(void* block) override {
        if (block != nullptr && !free_served(block)) inner_.raw_delete(block);
    }

    // The deleter is the same for every block, as PyTorch expects of one allocator.
    c10::DeleterFnPtr raw_deleter() const override {
        const c10::DeleterFnPtr deleter = inner_.raw_deleter();
        return deleter == inner_deleter_ ? &free : deleter;
    }

    void recordStream(const DataPtr& block, c10::cuda::CUDAStream stream) override {
        if (block.get() == nullptr) return;
        if (core_.use_on(number(block.get()), number(stream.stream()))) return;
        if (block.get_deleter() != &free) return inner_.recordStream(block, stream);
        const Borrowed own(block, inner_deleter_);
        inner_.recordStream(own.block, stream);
    }

    void enable(bool value) override {
        inner_.enable(value);
        is_enabled_ = value;
    }

    void emptyCache(MempoolId_t pool = {0, 0}) override {
        if (pool == MempoolId_t{0, 0} && pools_ == 0) {
            for (int device = 0; device < GAPLESS_DEVICES; ++device) {
                if (devices_[device].statistics.is_served()) core_.give_back(device);
            }
        }
        inner_.emptyCache(pool);
        for (Device& each : devices_) {
            if (each.statistics.is_served()) each.statistics.limit_core();
        }
    }

    DeviceStats getDeviceStats(DeviceIndex device) override {
        return of(device).statistics.together();
    }
    void resetPeakStats(DeviceIndex device) override { of(device).statistics.reset_peaks(); }
    void resetAccumulatedStats(DeviceIndex device) override {
        of(device).statistics.reset_accumulated();
    }
    double getMemoryFraction(DeviceIndex device) override { return of(device).statistics.limit(); }
    void setMemoryFraction(double fraction, DeviceIndex device) override {
        // PyTorch's allocator raises the error for a wrong value.
        inner_.setMemoryFraction(fraction, device);
        of(device).statistics.limit(fraction);
    }

    void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                             std::function<bool(cudaStream_t)> filter) override {
        begin_passing_on(device);
        try {
            inner_.beginAllocateToPool(device, pool, filter);
            if (core_.begin_pool(device, number(pool))) {
                const std::lock_guard lock(pools_mutex_);
                of(device).served.emplace_back(pool, std::move(filter));
            }
        } catch (...) {
            end_passing_on(device);
            throw;
        }
    }
    void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
        inner_.endAllocateToPool(device, pool);
        const bool has_ended = end_served(device, pool);
        end_passing_on(device);
        TORCH_CHECK(!has_ended || core_.end_capture(device, number(pool)),
                    "graphs: memory is short for what outlives this capture, or the device refuses "
                    "to map it; this graph must not be replayed");
    }
    void releasePool(DeviceIndex device, MempoolId_t pool) override {
        inner_.releasePool(device, pool);
        if (inner_.getPoolUseCount(device, pool) == 0) core_.end_pool(device, number(pool));
    }

    void* getBaseAllocation(void* address, std::size_t* bytes) override {
        GaplessSegment segment{};
        if (!core_.segment_of(number(address), &segment)) {
            return inner_.getBaseAllocation(address, bytes);
        }
        if (bytes != nullptr) *bytes = segment.bytes;
        return reinterpret_cast<void*>(segment.address);
    }

    ShareableHandle shareIpcHandle(void* address) override {
        GaplessSegment segment{};
        if (!core_.segment_of(number(address), &segment)) return inner_.shareIpcHandle(address);
        TORCH_CHECK(segment.is_plain,
                    "this tensor cannot be shared with another process: its memory is mapped page "
                    "by page; use PlannedMemory(arena=\"cudaMalloc\") or "
                    "OnlineMemory(\"pytorch-caching\")");
        cudaIpcMemHandle_t handle;
        C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, reinterpret_cast<void*>(segment.address)));
        return {static_cast<std::ptrdiff_t>(number(address) - segment.address),
                std::string{handle_version(), 'c'} +
                    std::string(reinterpret_cast<const char*>(&handle), sizeof handle)};
    }

    void enablePeerAccess(DeviceIndex device, DeviceIndex opened) override {
        inner_.enablePeerAccess(device, opened);
        core_.open_to(opened, device);
    }

    cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device,
                            std::size_t bytes, cudaStream_t stream, bool is_peer) override {
        // If the other device cannot reach mapped pages, the copy goes through the host.
        if (!is_peer && to_device != from_device && (is_mapped(to) || is_mapped(from))) {
            return cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, stream);
        }
        return inner_.memcpyAsync(to, to_device, from, from_device, bytes, stream, is_peer);
    }

    SnapshotInfo snapshot(MempoolId_t pool = {0, 0}, bool traces = true) override {
        SnapshotInfo info = inner_.snapshot(pool, traces);
        if (traces) history_.merge_into(info.device_traces);
        if (pool == MempoolId_t{0, 0}) {
            for (int device = 0; device < GAPLESS_DEVICES; ++device) {
                add_segments(device, info.segments);
            }
        }
        return info;
    }

    void recordHistory(bool enabled, CreateContextFn recorder, std::size_t most_entries,
                       RecordContext when, bool clear,
                       const std::vector<std::string>& skipped) override {
        inner_.recordHistory(enabled, recorder, most_entries, when, clear, skipped);
        history_.record(enabled, recorder, most_entries, when, clear, skipped);
    }
    void pushCompileContext(std::string& context) override {
        inner_.pushCompileContext(context);
        history_.push_compile_context(context);
    }
    void popCompileContext() override {
        inner_.popCompileContext();
        history_.pop_compile_context();
    }
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
        inner_.attachAllocatorTraceTracker(tracker);
        history_.add(std::move(tracker));
    }
    void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
        inner_.attachOutOfMemoryObserver([observer = std::move(observer)](auto... what) {
            if (!is_tried_again) observer(what...);
        });
    }

    CheckpointDelta setCheckpointPoolState(DeviceIndex device,
                                           std::shared_ptr<AllocatorState> state) override {
        CheckpointDelta delta = PassingOn::setCheckpointPoolState(device, std::move(state));
        of(device).statistics.forget_bound();
        return delta;
    }

#if GAPLESS_TORCH_IS_AT_LEAST(13)
    DataPtr allocateWithAddress(std::size_t bytes, void* address) override {
        DataPtr block = PassingOn::allocateWithAddress(bytes, address);
        of(c10::cuda::current_device()).statistics.forget_bound();
        return block;
    }
    void markCaptureBegin(DeviceIndex device) override {
        begin_passing_on(device);
        inner_.markCaptureBegin(device);
    }
    void markCaptureEnd(DeviceIndex device) override {
        inner_.markCaptureEnd(device);
        end_passing_on(device);
    }
#endif

  protected:
    void adopt(DataPtr& block) override {
        // A block outside of the cache keeps its own deleter.
        (void)block.compare_exchange_deleter(inner_deleter_, &free);
    }
    std::shared_ptr<c10::GatheredContext> own_context_of(const void* address) override {
        return core_.owns(number(address)) ? history_.context_of(number(address)) : nullptr;
    }
    bool annotate_own(const void* address, const std::string& metadata) override {
        GaplessBlock block{};
        if (!core_.block_of(number(address), &block)) return false;
        if (history_.is_watched()) history_.annotated(block, metadata);
        return true;
    }

  private:
    struct Device {
        std::atomic<int> pools{0};  // number of pools that get allocations now
        // Those of them that the core serves, and the streams that allocate to each; guarded by
        // pools_mutex_.
        std::vector<std::pair<MempoolId_t, std::function<bool(cudaStream_t)>>> served;
        JointStatistics statistics;
    };

    static void free(void* block) {
        if (block == nullptr) return;
        if (!decorator->free_served(block)) decorator->inner_deleter_(block);
    }

    Device& of(DeviceIndex device) { return devices_.at(static_cast<std::size_t>(device)); }

    bool is_asked(DeviceIndex device, std::size_t bytes) {
        return bytes > 0 && is_enabled_.load(std::memory_order_relaxed) &&
               of(device).pools.load(std::memory_order_relaxed) == 0;
    }

    void* serve(DeviceIndex device, std::size_t bytes, cudaStream_t stream) {
        const std::uint64_t address = core_.allocate(device, bytes, number(stream));
        if (address == 0) return nullptr;
        of(device).statistics.after_serving();
        if (is_watched()) tell_of_request(address);
        return reinterpret_cast<void*>(address);
    }

    // Returns null unless a stream is captured into a pool that the core serves.
    void* serve_captured(DeviceIndex device, std::size_t bytes,
                         std::optional<cudaStream_t> given = {}) {
        Device& own = of(device);
        if (bytes == 0 || own.pools.load(std::memory_order_relaxed) == 0) return nullptr;
        std::uint64_t address = 0;
        {
            const std::lock_guard lock(pools_mutex_);
            if (own.served.empty()) return nullptr;
            const cudaStream_t stream =
                given ? *given : c10::cuda::getCurrentCUDAStream(device).stream();
            // A capture within work between replays began last.
            const auto pool =
                std::find_if(own.served.rbegin(), own.served.rend(),
                             [&](const auto& each) { return each.second && each.second(stream); });
            if (pool == own.served.rend()) return nullptr;
            address = core_.allocate_in_pool(device, number(pool->first), bytes, number(stream));
        }
        if (address == 0) return nullptr;
        own.statistics.after_serving();
        if (is_watched()) tell_of_request(address);
        return reinterpret_cast<void*>(address);
    }

    // Parts of one capture may begin and end within it. Returns true if the last one of a pool that
    // the core serves has ended.
    bool end_served(DeviceIndex device, MempoolId_t pool) {
        const std::lock_guard lock(pools_mutex_);
        auto& served = of(device).served;
        const auto is_its = [&](const auto& each) { return each.first == pool; };
        const auto last = std::find_if(served.rbegin(), served.rend(), is_its);
        if (last == served.rend()) return false;
        served.erase(std::next(last).base());
        return std::ranges::none_of(served, is_its);
    }

    // If PyTorch's allocator has no memory, the core gives back its idle memory and PyTorch's
    // allocator tries once more.
    template <class Request>
    auto pass_on(DeviceIndex device, std::size_t bytes, cudaStream_t stream, Request request)
        -> decltype(request()) {
        Device& own = of(device);
        own.statistics.before_passing_on();
        auto block = asked_twice(device, request);
        own.statistics.after_passing_on(bytes);
        if (core_.passed_on != nullptr && is_asked(device, bytes)) {
            core_.passed_on(device, number(address_of(block)), bytes, number(stream));
        }
        return block;
    }

    static void* address_of(const DataPtr& block) { return block.get(); }
    static void* address_of(void* block) { return block; }

    template <class Request>
    auto asked_twice(DeviceIndex device, Request& request) -> decltype(request()) {
        if (pools_.load(std::memory_order_relaxed) > 0 || !of(device).statistics.is_served()) {
            return request();
        }
        try {
            const TriedAgain tried_again;
            return request();
        } catch (const c10::OutOfMemoryError&) {
            // PyTorch's allocator tries again; the program sees only its second error, if any.
        }
        core_.give_back(device);
        of(device).statistics.count_retry();
        of(device).statistics.before_passing_on();
        try {
            return request();
        } catch (c10::OutOfMemoryError& error) {
            const GaplessGauge* gauge = core_.gauge(device);
            error.add_context("Gapless has reserved " + std::to_string(gauge->reserved_bytes) +
                              " bytes more, of which " + std::to_string(gauge->allocated_bytes) +
                              " are allocated." + of(device).statistics.said_limit());
            throw;
        }
    }

    // Returns true if the block was the core's.
    bool free_served(void* block) {
        if (is_watched()) [[unlikely]] {
            tell_of_free(number(block));
        }
        if (pools_.load(std::memory_order_relaxed) > 0 && postpone(number(block))) return true;
        return core_.free(number(block));
    }

    // See Note [Requests to the core].
    bool postpone(std::uint64_t address) {
        GaplessBlock block{};
        if (!core_.block_of(address, &block) || block.other_streams == 0) return false;
        const std::lock_guard lock(postponed_mutex_);
        if (pools_ == 0) return false;
        postponed_.push_back(address);
        return true;
    }

    void begin_passing_on(DeviceIndex device) {
        ++pools_;
        ++of(device).pools;
    }

    void end_passing_on(DeviceIndex device) {
        --of(device).pools;
        std::vector<std::uint64_t> freed;
        {
            const std::lock_guard lock(postponed_mutex_);
            if (--pools_ == 0) freed.swap(postponed_);
        }
        for (const std::uint64_t address : freed) core_.free(address);
    }

    bool is_mapped(const void* address) const {
        GaplessSegment segment{};
        return core_.segment_of(number(address), &segment) && !segment.is_plain;
    }

    // The first bytes of PyTorch's own handles, which differ between its versions.
    char handle_version() {
        void* block = inner_.raw_alloc(1);
        struct Ended {
            CUDAAllocator& inner;
            void* block;
            ~Ended() { inner.raw_delete(block); }
        } const ended{inner_, block};
        return inner_.shareIpcHandle(block).handle.at(0);
    }

    bool is_watched() const {
        return history_.is_watched() || c10::impl::GPUTrace::get_trace() != nullptr ||
               c10::memoryProfilingEnabled();
    }

    void tell_of_request(std::uint64_t address) {
        GaplessBlock block{};
        if (!core_.block_of(address, &block)) return;
        if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
            (*trace)->trace_gpu_memory_allocation(c10::DeviceType::CUDA, address);
        }
        if (history_.is_watched()) history_.allocated(block, inner_.getUserMetadata());
        tell_profiler(block, static_cast<std::int64_t>(block.bytes));
    }

    void tell_of_free(std::uint64_t address) {
        GaplessBlock block{};
        if (!core_.block_of(address, &block)) return;
        if (const auto* trace = c10::impl::GPUTrace::get_trace()) {
            (*trace)->trace_gpu_memory_deallocation(c10::DeviceType::CUDA, address);
        }
        if (history_.is_watched()) history_.freed(block, inner_.getUserMetadata());
        tell_profiler(block, -static_cast<std::int64_t>(block.bytes));
    }

    void tell_profiler(const GaplessBlock& block, std::int64_t bytes) {
        if (!c10::memoryProfilingEnabled()) return;
        const auto device = static_cast<DeviceIndex>(block.device);
        const DeviceStats both = of(device).statistics.together();
        // A free is reported before it happens.
        const std::int64_t freed = std::min<std::int64_t>(bytes, 0);
        c10::reportMemoryUsageToProfiler(
            reinterpret_cast<void*>(block.address), bytes,
            static_cast<std::size_t>(both.allocated_bytes[0].current + freed),
            static_cast<std::size_t>(both.reserved_bytes[0].current),
            c10::Device(c10::DeviceType::CUDA, device));
    }

    void add_segments(int device, std::vector<SegmentInfo>& segments) {
        if (!devices_[device].statistics.is_served()) return;
        const std::size_t first = segments.size();
        const GaplessVisitor visitor{
            &segments,
            [](void* context, const GaplessSegment* found) {
                SegmentInfo& segment =
                    static_cast<std::vector<SegmentInfo>*>(context)->emplace_back();
                segment.device = static_cast<DeviceIndex>(found->device);
                segment.address = found->address;
                segment.total_size = found->bytes;
                segment.stream = reinterpret_cast<void*>(found->stream);
                segment.is_large = true;
                segment.is_expandable = !found->is_plain;
            },
            [](void* context, const GaplessBlock* found) {
                SegmentInfo& segment = static_cast<std::vector<SegmentInfo>*>(context)->back();
                auto& block = segment.blocks.emplace_back();
                block.size = found->bytes;
                block.requested_size = found->requested_bytes;
                block.allocated = found->is_allocated;
                block.active = found->is_active;
                segment.requested_size += found->requested_bytes;
                if (found->is_allocated) segment.allocated_size += found->bytes;
                if (found->is_active) segment.active_size += found->bytes;
            }};
        core_.visit(device, &visitor);
        for (auto segment = segments.begin() + static_cast<std::ptrdiff_t>(first);
             segment != segments.end(); ++segment) {
            std::uint64_t address = segment->address;
            for (auto& block : segment->blocks) {
                block.context_when_allocated = history_.context_of(address);
                address += block.size;
            }
        }
    }

    // While an object lives, observers hear of no shortage of memory, because a retry follows.
    struct TriedAgain {
        TriedAgain() { is_tried_again = true; }
        ~TriedAgain() { is_tried_again = false; }
    };
    static inline thread_local bool is_tried_again = false;

    const GaplessServing& core_;
    const c10::DeleterFnPtr inner_deleter_;
    std::atomic<bool> is_enabled_{true};
    std::atomic<int> pools_{0};  // on all devices
    std::array<Device, GAPLESS_DEVICES> devices_;
    EventHistory history_;
    std::mutex pools_mutex_;
    std::mutex postponed_mutex_;
    std::vector<std::uint64_t> postponed_;  // blocks that are freed when no capture runs
};

// Puts an allocator before the one in force.
void put_before(CUDAAllocator& inner, CUDAAllocator& outer) {
    allocator.store(&outer);
    // Also for callers that get the allocator by kind of device, such as torch.accelerator.
    if (c10::GetAllocator(c10::DeviceType::CUDA) == &inner) {
        c10::SetAllocator(c10::DeviceType::CUDA, &outer, 255);
    }
}

const char* decorate(const GaplessServing& core) {
    if (core.version != GAPLESS_SERVING_VERSION || core.bytes != sizeof(GaplessServing)) {
        return "the decorator of PyTorch's allocator and gapless's core are of different versions";
    }
    if (decorator != nullptr) return "PyTorch's allocator is decorated already";
    CUDAAllocator* inner = get();
    if (inner == nullptr) return "PyTorch has no allocator of CUDA memory";
    decorator = new Decorator(*inner, core);
    put_before(*inner, *decorator);
    return nullptr;
}

}  // namespace

}  // namespace gapless

// Returns null, or an error message. Never called by two threads at a time.
extern "C" __attribute__((visibility("default"))) const char* gapless_decorate(
    const GaplessServing* core) {
    static std::string error;
    try {
        return gapless::decorate(*core);
    } catch (const std::exception& found) {
        error = found.what();
        return error.c_str();
    }
}

// Begins or stops timing the requests and frees of the allocator in force; from the first call on
// they pass through a TimedAllocator. Writes the nanoseconds and the number of events so far.
extern "C" __attribute__((visibility("default"))) void gapless_time_requests(bool is_on,
                                                                             std::int64_t* so_far) {
    using gapless::TimedAllocator;
    if (TimedAllocator::only == nullptr) {
        c10::cuda::CUDACachingAllocator::CUDAAllocator* const inner =
            c10::cuda::CUDACachingAllocator::get();
        TimedAllocator::only = new TimedAllocator(*inner);
        gapless::put_before(*inner, *TimedAllocator::only);
    }
    TimedAllocator::is_on = is_on;
    so_far[0] = TimedAllocator::time.nanoseconds;
    so_far[1] = TimedAllocator::time.events;
}
