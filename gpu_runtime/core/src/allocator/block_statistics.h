// Sums over the blocks of an allocator, in the form of PyTorch's statistics.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "device/sizes.h"
#include "serving.h"

namespace gapless::runtime {

// The allocator's lock guards the sums. Other threads may read the gauge without the lock.
class BlockStatistics {
  public:
    // `requested` are the bytes that the program asked for; `bytes` is the size of the block.
    void allocated(std::size_t requested, std::size_t bytes) {
        GaplessStatsOfSize& sums = of(requested);
        add(sums.allocation, 1);
        add(sums.requested_bytes, requested);
        add(sums.allocated_bytes, bytes);
        raise(sums_.allocation_peak, &GaplessStatsOfSize::allocation);
        raise(sums_.requested_bytes_peak, &GaplessStatsOfSize::requested_bytes);
        raise(sums_.allocated_bytes_peak, &GaplessStatsOfSize::allocated_bytes);
        activated(requested, bytes);
        write(gauge_.allocated_bytes, current(&GaplessStatsOfSize::allocated_bytes));
    }
    // A freed block stays active until finished() is called.
    void freed(std::size_t requested, std::size_t bytes) {
        GaplessStatsOfSize& sums = of(requested);
        sums.allocation.current -= 1;
        sums.requested_bytes.current -= static_cast<std::int64_t>(requested);
        sums.allocated_bytes.current -= static_cast<std::int64_t>(bytes);
        write(gauge_.allocated_bytes, current(&GaplessStatsOfSize::allocated_bytes));
    }
    // Called when no stream uses a freed block any more.
    void finished(std::size_t requested, std::size_t bytes) {
        GaplessStatsOfSize& sums = of(requested);
        sums.active.current -= 1;
        sums.active_bytes.current -= static_cast<std::int64_t>(bytes);
    }
    // Tells by how much the segments and the reserved bytes have changed.
    void reserved(std::int64_t segments, std::int64_t bytes) {
        change(sums_.large.segment, segments);
        (segments > 0 ? sums_.device_allocations : sums_.device_frees) += std::abs(segments);
        change(sums_.large.reserved_bytes, bytes);
        write(gauge_.reserved_bytes, sums_.large.reserved_bytes.current);
        reserved_peak_ = std::max(reserved_peak_, sums_.large.reserved_bytes.current);
    }
    // Peak of reserved bytes since reset_reserved_peak().
    std::int64_t reserved_peak() const { return reserved_peak_; }
    void reset_reserved_peak() { reserved_peak_ = sums_.large.reserved_bytes.current; }
    void reset_peaks() {
        for (GaplessStatsOfSize* sums : {&sums_.small, &sums_.large}) {
            for (GaplessStat* stat :
                 {&sums->allocation, &sums->active, &sums->segment, &sums->requested_bytes,
                  &sums->allocated_bytes, &sums->active_bytes, &sums->reserved_bytes}) {
                stat->peak = stat->current;
            }
        }
        sums_.allocation_peak = current(&GaplessStatsOfSize::allocation);
        sums_.active_peak = current(&GaplessStatsOfSize::active);
        sums_.requested_bytes_peak = current(&GaplessStatsOfSize::requested_bytes);
        sums_.allocated_bytes_peak = current(&GaplessStatsOfSize::allocated_bytes);
        sums_.active_bytes_peak = current(&GaplessStatsOfSize::active_bytes);
    }

    const GaplessStatistics& sums() const { return sums_; }
    const GaplessGauge& gauge() const { return gauge_; }

  private:
    GaplessStatsOfSize& of(std::size_t requested) {
        return requested <= kSmallBytes ? sums_.small : sums_.large;
    }
    void activated(std::size_t requested, std::size_t bytes) {
        GaplessStatsOfSize& sums = of(requested);
        add(sums.active, 1);
        add(sums.active_bytes, bytes);
        raise(sums_.active_peak, &GaplessStatsOfSize::active);
        raise(sums_.active_bytes_peak, &GaplessStatsOfSize::active_bytes);
    }
    static void add(GaplessStat& stat, std::size_t amount) {
        stat.current += static_cast<std::int64_t>(amount);
        stat.total += static_cast<std::int64_t>(amount);
        stat.peak = std::max(stat.peak, stat.current);
    }
    static void change(GaplessStat& stat, std::int64_t change) {
        stat.total += std::max<std::int64_t>(change, 0);
        stat.current += change;
        stat.peak = std::max(stat.peak, stat.current);
    }
    std::int64_t current(GaplessStat GaplessStatsOfSize::* member) const {
        return (sums_.small.*member).current + (sums_.large.*member).current;
    }
    void raise(std::int64_t& peak, GaplessStat GaplessStatsOfSize::* member) const {
        peak = std::max(peak, current(member));
    }
    static void write(std::int64_t& word, std::int64_t value) {
        __atomic_store_n(&word, value, __ATOMIC_RELAXED);
    }

    GaplessStatistics sums_{};
    GaplessGauge gauge_{};
    std::int64_t reserved_peak_ = 0;
};

// The reserved memory of one of several heaps that share their statistics.
class ReservedPart {
  public:
    explicit ReservedPart(BlockStatistics& statistics) : statistics_(statistics) {}

    // Tells the segments and the reserved bytes that this heap has now.
    void set(std::size_t segments, std::size_t bytes) {
        const auto now = static_cast<std::int64_t>(segments);
        const auto now_bytes = static_cast<std::int64_t>(bytes);
        statistics_.reserved(now - segments_, now_bytes - bytes_);
        segments_ = now;
        bytes_ = now_bytes;
    }

  private:
    BlockStatistics& statistics_;
    std::int64_t segments_ = 0, bytes_ = 0;
};

}  // namespace gapless::runtime
