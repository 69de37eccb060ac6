// How many bytes planned memory may reserve.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

// Note [Memory in bounds]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Free memory in pieces is of no use to a larger request, and memory that is taken from
// the device for that request stays reserved. An allocator that only reuses free ranges reserves 5
// to 20 % more than the live peak. Physical memory has no address of its own, so it can move to a
// new address, and since two mappings may show one frame, a move waits for nobody.
// Approach. The heap creates new pages while reserved bytes stay within 1/256 above the live peak.
// Beyond that bound, idle frames move to where memory is needed: those outside of the arena first,
// largest free ranges first; then those of the arena, at first those of places that the step does
// not need any more. A planned place takes no frame of a place that the step still needs; the heap
// creates a page instead. An unexpected request never lies at addresses of the arena, where it
// would be in the way of planned requests. It only borrows the frames of a place. The place gets
// them back by its old mapping when they are idle again; until then, a request for that place is
// served elsewhere. At the end of a step, idle memory above the bound goes back to the device.
// The price. A move costs calls in each step, a page beyond the bound costs its bytes once. An
// irregular program moves frames for ever if the bound never gives way: a mixture of experts made
// 150 calls a step on an H100, of 45 us each, and 11 in 100 steps after the bound had risen by
// 0.25 %. So the bound rises by 1/32 of the geometric mean of the live peak and the bytes that were
// mapped again, for a move or because a page went back to the device too early. When the first
// 1/256 of the live peak has moved, it has risen by 1/512; from there on, each further rise takes
// more moves than the one before. It rises by at most 1/128 of the live peak. Two kinds of moves do
// not count, because they are made once: those of blocks in order, and those of an adopted plan.
// Limits. Frames move as a whole: if small blocks lie in many frames, as with sizes that never
// recur, less memory is idle than free. Then the heap creates pages beyond the bound.
class MemoryBound {
  public:
    explicit MemoryBound(std::size_t page_bytes)
        : slack_(kSlackPages * static_cast<std::int64_t>(page_bytes)) {}

    // Note that a block came into use, or that it is about to be freed.
    void allocated(std::size_t bytes) {
        live_bytes_ += static_cast<std::int64_t>(bytes);
        live_peak_ = std::max(live_peak_, live_bytes_);
    }
    void freed(std::size_t bytes) { live_bytes_ -= static_cast<std::int64_t>(bytes); }
    // Notes the bytes that were mapped since the beginning, and the reserved bytes of the moment.
    // What was mapped beyond the most reserved bytes was mapped again; it does not count if `once`.
    void note_mapped(std::int64_t mapped, std::int64_t reserved, bool once) {
        most_reserved_ = std::max(most_reserved_, reserved);
        const std::int64_t again = mapped - most_reserved_;
        if (!once) moved_ += std::max(again - again_, std::int64_t{0});
        again_ = again;
    }
    // Bytes of the blocks in use, and their peak since the beginning.
    std::int64_t live_bytes() const { return live_bytes_; }
    std::int64_t live_peak() const { return live_peak_; }
    // The most bytes to reserve while a block of `more` bytes is added to those in use.
    std::int64_t most(std::size_t more = 0) const {
        const std::int64_t live =
            std::max(live_peak_, live_bytes_ + static_cast<std::int64_t>(more));
        const double mean = std::sqrt(static_cast<double>(live) * static_cast<double>(moved_));
        const std::int64_t rise = static_cast<std::int64_t>(mean) / kShareOfMean;
        return live + live / kShare + slack_ + std::min(rise, live / kMostRise);
    }

  private:
    // Guesses: reserved bytes may be 1/256 above the live peak, and pages for small programs.
    static constexpr std::int64_t kShare = 256, kSlackPages = 4;
    // See Note [Memory in bounds], the price. With 64 the mixture of experts still made 53 calls a
    // step.
    static constexpr std::int64_t kShareOfMean = 32;
    // Of nine programs recorded on an H100, five reserved 1.7 to 3.4 % more with 16 than with 128,
    // for at most 50 calls less in a step.
    static constexpr std::int64_t kMostRise = 128;

    const std::int64_t slack_;
    std::int64_t live_bytes_ = 0, live_peak_ = 0;
    std::int64_t most_reserved_ = 0;
    std::int64_t again_ = 0;  // bytes mapped again, and `moved_` those of them that count
    std::int64_t moved_ = 0;
};

}  // namespace gapless::runtime
