// How many bytes planned memory may reserve.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "allocator/move_budget.h"
#include "allocator/shadow_allocator.h"

namespace gapless::runtime {

// Note [Memory in bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Free memory in pieces is of no use to a larger request. An allocator that only reuses
// free ranges reserves 5 to 20 % more than the live peak. Physical memory has no address of its
// own, so it can move to where it is needed, but a move costs device calls in each step again.
// Approach. Two bounds. The shadow is a guarantee: what PyTorch's allocator would hold for the same
// requests. Up to it, the heap creates pages. Beyond it, idle frames move, and they do so at any
// price. A retired frame, which waits to go back to the device, is reserved and idle: it serves a
// request before a page is created. The lower bound is 1/256 above the live peak. The heap keeps to
// it while the budget of moves lasts. Places of plans keep to the shadow alone. Their arena was
// held against it together with the frames of all other blocks, so no place takes frames from
// another.
// Limits. Frames move as a whole. If small blocks keep many frames in use, the heap creates pages
// beyond its bound, and counts such events. The heap of a tag takes no frame from another heap.
class MemoryBound {
  public:
    MemoryBound(std::size_t page_bytes, std::size_t device_bytes, double share_of_moves)
        : slack_(kSlackPages * static_cast<std::int64_t>(page_bytes)),
          shadow_(device_bytes),
          budget_(share_of_moves) {}

    ShadowAllocator& shadow() { return shadow_; }
    const ShadowAllocator& shadow() const { return shadow_; }
    MoveBudget& budget() { return budget_; }
    const MoveBudget& budget() const { return budget_; }

    // Note that a block came into use, or that it is about to be freed.
    void allocated(std::size_t bytes) {
        live_bytes_ += static_cast<std::int64_t>(bytes);
        live_peak_ = std::max(live_peak_, live_bytes_);
    }
    void freed(std::size_t bytes) { live_bytes_ -= static_cast<std::int64_t>(bytes); }
    // Bytes of the blocks in use, and their peak since the beginning.
    std::int64_t live_bytes() const { return live_bytes_; }
    std::int64_t live_peak() const { return live_peak_; }

    // The most bytes to reserve while a block of `more` bytes is added to those in use.
    std::int64_t most(std::size_t more = 0) const {
        return budget_.is_left() ? least(more) : shadow_.reserved_bytes();
    }
    // The same with moves at any price.
    std::int64_t least(std::size_t more = 0) const {
        const std::int64_t live =
            std::max(live_peak_, live_bytes_ + static_cast<std::int64_t>(more));
        return std::min(shadow_.reserved_bytes(), live + live / kShare + slack_);
    }
    // Note that plans are adopted, which were held against the shadow of this moment.
    void adopted() { shadow_at_adoption_ = shadow_.reserved_bytes(); }
    // The most bytes to reserve while a place of a plan gets its memory. PyTorch's allocator may
    // have given memory back since, but places keep theirs.
    std::int64_t most_of_places() const {
        return std::max(shadow_at_adoption_, shadow_.reserved_bytes());
    }
    // Note the reserved bytes of this moment.
    void reserved(std::size_t bytes) { reserved_peak_ = std::max(reserved_peak_, bytes); }
    // Note that all idle memory went back, as PyTorch's allocator gives it back.
    void given_back(std::size_t reserved) { reserved_peak_ = reserved; }
    // Returns true if so many bytes were reserved at some time since then.
    bool was_reserved(std::size_t bytes) const { return bytes <= reserved_peak_; }

  private:
    // Guesses: reserved bytes may be 1/256 above the live peak, and pages for small programs.
    static constexpr std::int64_t kShare = 256, kSlackPages = 4;

    const std::int64_t slack_;
    ShadowAllocator shadow_;
    MoveBudget budget_;
    std::int64_t live_bytes_ = 0, live_peak_ = 0, shadow_at_adoption_ = 0;
    std::size_t reserved_peak_ = 0;
};

}  // namespace gapless::runtime
