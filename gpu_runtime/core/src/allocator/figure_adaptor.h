// Observes bytes and outcomes: counts the figures that a report shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "allocator/planned_blocks.h"

namespace gapless::runtime {

// Current bytes, and peaks and counts since reset_peaks().
struct Figures {
    std::int64_t requested_bytes = 0, requested_peak = 0;
    std::int64_t allocated_bytes = 0, allocated_peak = 0;  // requests rounded up to blocks
    std::int64_t reserved_bytes = 0, reserved_peak = 0;    // physical memory
    std::int64_t arena_bytes = 0;                          // the arena's part of reserved bytes
    std::int64_t live_peak = 0;  // peak of allocated bytes since the beginning
    // Bytes that PyTorch's allocator would reserve, by default and with expandable segments.
    std::int64_t default_bytes = 0, default_peak = 0;
    std::int64_t expandable_bytes = 0, expandable_peak = 0;
    std::int64_t requests_above_shadow = 0;     // after which reserved bytes are above the shadow's
    std::int64_t steps = 0, planned_steps = 0;  // all, and those that followed their plans
    std::int64_t planned_requests = 0;          // served at their places
    std::int64_t escaping_requests =
        0;  // expected by a plan without a place: they outlive the step
    std::int64_t unexpected_requests = 0;           // after a step had left its plan
    std::int64_t moved_bytes = 0;                   // bytes of frames that moved to other addresses
    std::int64_t refused_frees = 0;                 // frees for which the device refused a call
    std::int64_t paused_bytes = 0, kept_bytes = 0;  // paused memory, and its part on the host
    GraphFigures graphs;
};

// See Note [Observers are adaptors].
template <class Observed>
class FigureAdaptor : public Observed {
  public:
    using Observed::Observed;

    Served allocate(Lock& lock, std::size_t bytes, Stream stream) {
        const Served served = Observed::allocate(lock, bytes, stream);
        count(bytes);
        return served;
    }
    // Requests and frees of captured graphs, as GraphMemory serves them.
    Address allocate_in_pool(Lock& lock, PoolId pool, std::size_t bytes, Stream stream) {
        const Address address =
            this->graphs().allocate(pool, bytes, stream, [&] { this->give_back(lock); });
        if (address != 0) count(bytes);
        return address;
    }
    bool free_of_graphs(Address address) {
        const auto requested = this->graphs().free(address);
        requested_bytes_ -= static_cast<std::int64_t>(requested.value_or(0));
        return requested.has_value();
    }
    void free(BoundedHeap& heap, Block& block) noexcept {
        requested_bytes_ -= static_cast<std::int64_t>(block.requested);
        try {
            Observed::free(heap, block);
        } catch (...) {
            // The block is lost to later requests; nothing else is damaged.
            ++counted_.refused_frees;
        }
    }
    StepEnd begin_step(Lock& lock, std::int32_t label) {
        const StepEnd between = Observed::begin_step(lock, label);
        count_requests(between);
        return between;
    }
    StepEnd end_step(Lock& lock, bool completed) {
        const StepEnd end = Observed::end_step(lock, completed);
        ++counted_.steps;
        counted_.planned_steps += end.is_planned;
        count_requests(end);
        return end;
    }

    Figures figures() const {
        const BlockHeap& blocks = this->heap().blocks();
        Figures figures = counted_;
        figures.requested_bytes = requested_bytes_;
        figures.allocated_bytes = allocated_bytes();
        figures.reserved_bytes = static_cast<std::int64_t>(reserved_bytes(this->heaps()) +
                                                           this->graphs().reserved_bytes());
        figures.reserved_peak = this->statistics().reserved_peak();
        figures.default_bytes = default_bytes();
        figures.expandable_bytes = expandable_bytes();
        figures.graphs = this->graphs().figures();
        figures.arena_bytes = static_cast<std::int64_t>(blocks.arena_bytes());
        figures.live_peak = this->bound().live_peak();
        figures.moved_bytes = static_cast<std::int64_t>(blocks.moved_bytes() - moved_before_);
        for (const BoundedHeap* heap : this->heaps()) {
            for (const auto& [begin, run] : heap->blocks().paused_runs()) {
                const auto bytes = static_cast<std::int64_t>(run.end - begin);
                figures.paused_bytes += bytes;
                if (run.copy != nullptr) figures.kept_bytes += bytes;
            }
        }
        return figures;
    }
    void reset_peaks() {
        counted_ = {};
        counted_.requested_peak = requested_bytes_;
        counted_.allocated_peak = allocated_bytes();
        counted_.default_peak = default_bytes();
        counted_.expandable_peak = expandable_bytes();
        this->statistics().reset_reserved_peak();
        moved_before_ = this->heap().blocks().moved_bytes();
    }

  private:
    std::int64_t allocated_bytes() const {
        return this->bound().live_bytes() + this->graphs().allocated_bytes();
    }
    std::int64_t default_bytes() const {
        return this->bound().shadow().default_bytes() + this->graphs().default_bytes();
    }
    std::int64_t expandable_bytes() const {
        return this->bound().shadow().expandable_bytes() + this->graphs().expandable_bytes();
    }
    void count(std::size_t requested) {
        requested_bytes_ += static_cast<std::int64_t>(requested);
        counted_.requested_peak = std::max(counted_.requested_peak, requested_bytes_);
        counted_.allocated_peak = std::max(counted_.allocated_peak, allocated_bytes());
        counted_.default_peak = std::max(counted_.default_peak, default_bytes());
        counted_.expandable_peak = std::max(counted_.expandable_peak, expandable_bytes());
        counted_.requests_above_shadow += std::min(default_bytes(), expandable_bytes()) <
                                          this->statistics().gauge().reserved_bytes;
    }
    void count_requests(const StepEnd& end) {
        counted_.planned_requests += end.planned;
        counted_.escaping_requests += end.escaping;
        counted_.unexpected_requests += end.unexpected;
    }

    Figures counted_;  // the peaks and counts
    std::int64_t requested_bytes_ = 0;
    std::size_t moved_before_ = 0;  // bytes of frames that had moved at reset_peaks()
};

}  // namespace gapless::runtime
