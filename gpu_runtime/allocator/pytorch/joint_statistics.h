// The statistics of one device for the core and PyTorch's allocator together.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>

#include "passing_on.h"
#include "serving.h"

namespace gapless {

// Note [Peaks of two allocators]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Current values of two allocators can be added, but peaks cannot: the core may have its
// peak while PyTorch's allocator has little. To query PyTorch's statistics costs a lock and a copy
// of 1 KiB, too much for each request, and this class does not see PyTorch's frees.
// Approach. Allocated bytes reach a new record only at an allocation, and every allocation passes
// through this class. It keeps an upper bound on PyTorch's part: the last queried value and all
// bytes passed on since. PyTorch is queried only if this bound and the core's gauge together exceed
// the record; the query makes the bound tight again. While the core has no allocated bytes, PyTorch
// is not queried, because its own peak is the joint one.
// Reserved bytes and segments of the core change rarely. Between two changes, the joint peak is the
// peak of PyTorch's part plus the core's constant part. At each change, this class notes PyTorch's
// peaks and resets them.
// Limits. If one thread allocates at a time, the peaks over all sizes of allocated bytes, reserved
// bytes and segments are exact. This class may miss bytes that several threads allocate and free
// within the same microsecond, and memory that the core takes and gives back within one call. All
// other peaks are lower bounds: the most seen at a new record of those peaks or at a query of the
// user, and at least each part's own peak.
class JointStatistics {
  public:
    void open(const GaplessServing& core, CUDAAllocator& inner, DeviceIndex device) {
        core_ = &core;
        inner_ = &inner;
        device_ = device;
    }

    // Returns true if the core serves this device.
    bool is_served() { return gauge() != nullptr; }

    void after_serving() {
        const GaplessGauge* seen = gauge();
        if (seen == nullptr) return;
        compare(read(seen->allocated_bytes), inner_bound_.load(std::memory_order_relaxed));
        if (read(seen->reserved_bytes) != reserved_.load(std::memory_order_relaxed)) note_change();
    }

    void before_passing_on() {
        const GaplessGauge* seen = gauge();
        if (seen == nullptr) return;
        if (read(seen->reserved_bytes) != reserved_.load(std::memory_order_relaxed)) note_change();
    }

    void after_passing_on(std::size_t bytes) {
        const GaplessGauge* seen = gauge();
        if (seen == nullptr) return;
        limit_core();
        const std::int64_t allocated = read(seen->allocated_bytes);
        if (allocated == 0) return forget_bound();
        const std::int64_t most = most_bytes(bytes);
        compare(allocated, inner_bound_.fetch_add(most, std::memory_order_relaxed) + most);
    }

    // PyTorch's allocator may have more bytes than were passed on, so the bound is unknown.
    void forget_bound() { inner_bound_.store(kUnknown, std::memory_order_relaxed); }

    // Returns the statistics of both together.
    DeviceStats together() {
        DeviceStats both = inner_->getDeviceStats(device_);
        const std::lock_guard lock(mutex_);
        both.num_ooms = std::max<std::int64_t>(0, both.num_ooms - retries_);
        if (gauge() == nullptr) return both;
        DeviceStats own = of_core();
        if (own.reserved_bytes[kAllSizes].current != reserved_) change(both, own);
        add_inactive(own);
        keep_peaks(both, own, own);
        for_each_stat(both, own, [](Stat& sum, const Stat& part) {
            sum.current += part.current;
            sum.allocated += part.allocated;
            sum.freed += part.freed;
        });
        for_each_stat(both, begun_, [](Stat& sum, const Stat& before) {
            sum.allocated -= before.allocated;
            sum.freed -= before.freed;
        });
        both.num_device_alloc += own.num_device_alloc - begun_.num_device_alloc;
        both.num_device_free += own.num_device_free - begun_.num_device_free;
        for_each_stat(both, peaks_, [](Stat& sum, const Stat& seen) { sum.peak = seen.peak; });
        raise_own_peaks(both, peaks_);
        Stat& allocated = both.allocated_bytes[kAllSizes];
        allocated.peak = std::max(allocated.peak, record_.load());
        return both;
    }

    void reset_peaks() {
        const std::lock_guard lock(mutex_);
        inner_->resetPeakStats(device_);
        peaks_ = {};
        if (gauge() == nullptr) return;
        core_->reset_peaks(device_);
        record_ = 0;
        inner_bound_ = kUnknown;
        const DeviceStats inner = inner_->getDeviceStats(device_), own = of_core();
        keep_peaks(inner, own, own);
    }

    void reset_accumulated() {
        const std::lock_guard lock(mutex_);
        inner_->resetAccumulatedStats(device_);
        retries_ = 0;
        if (gauge() != nullptr) begun_ = of_core();
    }

    // Counts the retry of a request for which PyTorch's allocator had no memory.
    void count_retry() {
        const std::lock_guard lock(mutex_);
        ++retries_;
    }

    void limit(double fraction) {
        const std::lock_guard lock(mutex_);
        fraction_ = fraction;
        limit_both();
    }
    // Lowers the core's limit by PyTorch's part, which may have changed.
    void limit_core() {
        if (fraction_ < 0) return;
        const std::lock_guard lock(mutex_);
        tell_core();
    }
    // The sentence on the user's limit that ends an error; empty without a limit.
    std::string said_limit() {
        const std::lock_guard lock(mutex_);
        if (fraction_ < 0) return "";
        return " Both together may reserve " + std::to_string(static_cast<std::int64_t>(most())) +
               " bytes (set_per_process_memory_fraction).";
    }
    double limit() {
        const std::lock_guard lock(mutex_);
        return fraction_ < 0 ? inner_->getMemoryFraction(device_) : fraction_.load();
    }

  private:
    static constexpr std::size_t kAllSizes = 0, kSmall = 1, kLarge = 2;
    static constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max() / 2;

    static std::int64_t read(const std::int64_t& word) {
        return __atomic_load_n(&word, __ATOMIC_RELAXED);
    }

    // Returns the largest possible block of PyTorch for a request. A size is rounded up to the next
    // power of two at most, and a large block keeps a rest of at most 20 MiB.
    static std::int64_t most_bytes(std::size_t bytes) {
        constexpr std::int64_t small = std::int64_t{1} << 20, rest = std::int64_t{20} << 20;
        const auto asked = static_cast<std::int64_t>(bytes);
        return asked <= small / 2 ? 2 * asked + 512 : 2 * asked + rest;
    }

    const GaplessGauge* gauge() {
        const GaplessGauge* found = gauge_.load(std::memory_order_acquire);
        if (found != nullptr) return found;
        found = core_->gauge(device_);
        if (found != nullptr) gauge_.store(found, std::memory_order_release);
        return found;
    }

    void compare(std::int64_t own, std::int64_t inner) {
        if (own + inner > record_.load(std::memory_order_relaxed)) look(own);
    }

    void look(std::int64_t own_bytes) {
        const std::lock_guard lock(mutex_);
        std::int64_t bound = inner_bound_.load();
        DeviceStats inner;
        if (!ask(inner)) return;
        const Stat& allocated = inner.allocated_bytes[kAllSizes];
        // If bytes were passed on meanwhile, the old bound stays, which is still valid.
        inner_bound_.compare_exchange_strong(bound, allocated.current);
        record_ = std::max({record_.load(), allocated.peak, allocated.current + own_bytes});
        const DeviceStats own = of_core();
        keep_peaks(inner, own, at_change_);
    }

    // Segments and reserved bytes of the core have changed.
    void note_change() {
        const std::lock_guard lock(mutex_);
        DeviceStats inner;
        const DeviceStats own = of_core();
        if (ask(inner)) {
            change(inner, own);
        } else {
            reserved_ = own.reserved_bytes[kAllSizes].current;
        }
    }

    void change(const DeviceStats& inner, const DeviceStats& own) {
        keep_peaks(inner, own, at_change_);
        reserved_ = own.reserved_bytes[kAllSizes].current;
        at_change_ = own;
        inner_->resetPeakStats(device_);
        limit_both();
    }

    // Returns false if PyTorch's current allocator has no statistics; then there are no joint ones.
    bool ask(DeviceStats& inner) {
        try {
            inner = inner_->getDeviceStats(device_);
            return true;
        } catch (const c10::Error&) {
            record_ = std::numeric_limits<std::int64_t>::max();
            return false;
        }
    }

    // `constant` has the core's reserved bytes and segments since the last change.
    void keep_peaks(const DeviceStats& inner, const DeviceStats& own, const DeviceStats& constant) {
        DeviceStats sum = inner;
        for_each_stat(sum, own, [](Stat& both, const Stat& part) {
            both.peak = std::max({both.peak, part.peak, both.current + part.current});
        });
        for (std::size_t size = 0; size < sum.segment.size(); ++size) {
            raise(sum.segment[size], inner.segment[size].peak + constant.segment[size].current);
            raise(sum.reserved_bytes[size],
                  inner.reserved_bytes[size].peak + constant.reserved_bytes[size].current);
        }
        for_each_stat(peaks_, sum, [](Stat& kept, const Stat& both) { raise(kept, both.peak); });
        raise_own_peaks(peaks_, inner);
    }

    static void raise(Stat& stat, std::int64_t peak) { stat.peak = std::max(stat.peak, peak); }

    // Returns the core's statistics in PyTorch's form.
    DeviceStats of_core() {
        GaplessStatistics core{};
        core_->statistics(device_, &core);
        DeviceStats stats;
        const auto fill = [&core](StatArray& to, GaplessStat GaplessStatsOfSize::* member,
                                  std::int64_t peak) {
            to[kSmall] = stat_of(core.small.*member);
            to[kLarge] = stat_of(core.large.*member);
            to[kAllSizes].current = to[kSmall].current + to[kLarge].current;
            to[kAllSizes].allocated = to[kSmall].allocated + to[kLarge].allocated;
            to[kAllSizes].freed = to[kSmall].freed + to[kLarge].freed;
            to[kAllSizes].peak = peak;
        };
        using Of = GaplessStatsOfSize;
        fill(stats.allocation, &Of::allocation, core.allocation_peak);
        fill(stats.active, &Of::active, core.active_peak);
        fill(stats.segment, &Of::segment, core.large.segment.peak);
        fill(stats.requested_bytes, &Of::requested_bytes, core.requested_bytes_peak);
        fill(stats.allocated_bytes, &Of::allocated_bytes, core.allocated_bytes_peak);
        fill(stats.active_bytes, &Of::active_bytes, core.active_bytes_peak);
        fill(stats.reserved_bytes, &Of::reserved_bytes, core.large.reserved_bytes.peak);
        stats.num_device_alloc = core.device_allocations;
        stats.num_device_free = core.device_frees;
        return stats;
    }

    // Counts free blocks of segments with active blocks, whose memory cannot be given back.
    void add_inactive(DeviceStats& stats) {
        struct Found {
            std::int64_t blocks = 0, bytes = 0;            // of all segments
            std::int64_t free_blocks = 0, free_bytes = 0;  // of one
            bool is_active = false;

            void end_segment() {
                if (is_active) blocks += free_blocks, bytes += free_bytes;
                free_blocks = free_bytes = 0;
                is_active = false;
            }
        } found;
        const GaplessVisitor visitor{&found,
                                     [](void* context, const GaplessSegment*) {
                                         static_cast<Found*>(context)->end_segment();
                                     },
                                     [](void* context, const GaplessBlock* block) {
                                         auto& seen = *static_cast<Found*>(context);
                                         if (block->is_active) {
                                             seen.is_active = true;
                                         } else {
                                             ++seen.free_blocks;
                                             seen.free_bytes +=
                                                 static_cast<std::int64_t>(block->bytes);
                                         }
                                     }};
        core_->visit(device_, &visitor);
        found.end_segment();
        for (const std::size_t size : {kAllSizes, kLarge}) {
            stats.inactive_split[size].current = found.blocks;
            stats.inactive_split_bytes[size].current = found.bytes;
        }
    }

    static Stat stat_of(const GaplessStat& found) {
        Stat stat;
        stat.current = found.current;
        stat.peak = found.peak;
        stat.allocated = found.total;
        stat.freed = found.total - found.current;
        return stat;
    }

    // The bytes of both together, if there is a limit.
    double most() const { return fraction_ * total_; }

    void tell_core() {
        DeviceStats inner;
        if (!ask(inner)) return;
        const auto held = static_cast<double>(inner.reserved_bytes[kAllSizes].current);
        core_->limit(device_, static_cast<std::uint64_t>(std::max(0.0, most() - held)));
    }

    // Lowers the limit of each by the other's part, because the user's limit is for both.
    void limit_both() {
        // The user may have set a limit before the core served.
        if (fraction_ < 0 && inner_->getMemoryFraction(device_) < 1) {
            fraction_ = inner_->getMemoryFraction(device_);
        }
        if (fraction_ < 0) return;
        if (total_ == 0) total_ = static_cast<double>(inner_->getMemoryInfo(device_).second);
        tell_core();
        const auto own = static_cast<double>(reserved_.load());
        const DeviceIndex current = c10::cuda::current_device();
        inner_->setMemoryFraction(std::max(0.0, fraction_ - own / total_), device_);
        // setMemoryFraction() leaves `device_` as the current device.
        C10_CUDA_CHECK(c10::cuda::MaybeSetDevice(current));
    }

    const GaplessServing* core_ = nullptr;
    CUDAAllocator* inner_ = nullptr;
    DeviceIndex device_ = 0;
    std::atomic<const GaplessGauge*> gauge_{nullptr};

    std::atomic<std::int64_t> inner_bound_{kUnknown};  // upper bound on PyTorch's allocated bytes
    std::atomic<std::int64_t> record_{0};              // most allocated bytes of both
    std::atomic<std::int64_t> reserved_{0};            // the core's reserved bytes when last noted

    // Guards the members below. Held while either allocator is queried; neither calls this class.
    std::mutex mutex_;
    DeviceStats peaks_;      // only peaks
    DeviceStats at_change_;  // the core's statistics at the last change of its reserved bytes
    DeviceStats begun_;      // the core's statistics at the last reset of accumulated ones
    std::int64_t retries_ = 0;
    // The user's limit for both, a share of the device; negative for none.
    std::atomic<double> fraction_{-1};
    double total_ = 0;  // the device's bytes, if there is a limit
};

}  // namespace gapless
