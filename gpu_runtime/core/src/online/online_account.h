// The sums of an online allocator.
#pragma once

#include <algorithm>
#include <cstddef>

#include "allocator/block_statistics.h"

namespace gapless::runtime {

// Current bytes and their peaks. At every moment reserved = active + free.
struct OnlineFigures {
    std::size_t requested_bytes = 0;
    std::size_t requested_peak = 0;
    std::size_t allocated_bytes = 0;  // in blocks of live requests
    std::size_t allocated_peak = 0;
    std::size_t active_bytes = 0;    // allocated ones, and freed blocks that a stream may still use
    std::size_t free_bytes = 0;      // ready for a request, mapped or not
    std::size_t reserved_bytes = 0;  // physical memory
    std::size_t reserved_peak = 0;
    std::size_t segments = 0;  // listed ranges of addresses with memory behind every byte
};

// Keeps the sums of an allocator, which reports every change of its blocks. The account of an
// allocator within another one counts in the outer account too.
class OnlineAccount {
  public:
    explicit OnlineAccount(OnlineAccount* whole = nullptr) : whole_(whole) {}

    // From now on counts blocks in `statistics` too; null stops this.
    void keep(BlockStatistics* statistics) { statistics_ = statistics; }

    void allocated(std::size_t requested, std::size_t bytes) {
        if (whole_ != nullptr) whole_->allocated(requested, bytes);
        if (statistics_ != nullptr) statistics_->allocated(requested, bytes);
        figures_.requested_bytes += requested;
        figures_.allocated_bytes += bytes;
        figures_.active_bytes += bytes;
        figures_.requested_peak = std::max(figures_.requested_peak, figures_.requested_bytes);
        figures_.allocated_peak = std::max(figures_.allocated_peak, figures_.allocated_bytes);
    }
    // The block stays active until finished().
    void freed(std::size_t requested, std::size_t bytes) {
        if (whole_ != nullptr) whole_->freed(requested, bytes);
        if (statistics_ != nullptr) statistics_->freed(requested, bytes);
        figures_.requested_bytes -= requested;
        figures_.allocated_bytes -= bytes;
    }
    void finished(std::size_t requested, std::size_t bytes) {
        if (whole_ != nullptr) whole_->finished(requested, bytes);
        if (statistics_ != nullptr) statistics_->finished(requested, bytes);
        figures_.active_bytes -= bytes;
    }
    // Bytes become ready for a request, or are no longer ready.
    void add_free(std::size_t bytes) {
        if (whole_ != nullptr) whole_->add_free(bytes);
        figures_.free_bytes += bytes;
    }
    void remove_free(std::size_t bytes) {
        if (whole_ != nullptr) whole_->remove_free(bytes);
        figures_.free_bytes -= bytes;
    }
    void reserved(std::size_t bytes) {
        if (whole_ != nullptr) whole_->reserved(bytes);
        figures_.reserved_bytes += bytes;
        figures_.reserved_peak = std::max(figures_.reserved_peak, figures_.reserved_bytes);
    }
    void released(std::size_t bytes) {
        if (whole_ != nullptr) whole_->released(bytes);
        figures_.reserved_bytes -= bytes;
    }
    void add_segment() {
        if (whole_ != nullptr) whole_->add_segment();
        ++figures_.segments;
    }
    void remove_segment() {
        if (whole_ != nullptr) whole_->remove_segment();
        --figures_.segments;
    }

    void reset_peaks() {
        figures_.requested_peak = figures_.requested_bytes;
        figures_.allocated_peak = figures_.allocated_bytes;
        figures_.reserved_peak = figures_.reserved_bytes;
    }
    const OnlineFigures& figures() const { return figures_; }

  private:
    OnlineAccount* const whole_;
    BlockStatistics* statistics_ = nullptr;
    OnlineFigures figures_;
};

}  // namespace gapless::runtime
