// The position of a running step within one kind of step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/kind_plan.h"

namespace gapless::runtime {

// Note [Finding a step again]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan helps only while the allocator knows which request of the plan each request is.
// Real steps have a few requests more or less, and other sizes at other sequence lengths. A wrong
// answer costs only memory, so the aim is to find the position again soon.
// Approach. Each stream has its own position, since streams interleave differently in every step.
// The request at the position is the answer if the size is likely. A slot that never varied is
// likely only for its size. The sizes of most other slots are linear in the length of the step: one
// slot tells how far between least and most the others are, or beyond. If a size is not likely, the
// search looks for the last requests of the stream in a row, nearest position first; the farther
// away, the longer the row must be. If every size was constant so far and now no size is, one ratio
// explains a row of requests; for another sequence length, another scale on all lines does. A size
// that fits nowhere better is taken for the slot at the position if that slot varies. Otherwise the
// plan does not have this request.
// Limits. Equal layers look alike. If a step leaves one layer out, it is followed in the wrong
// layer until the last one, which is too short. All hints on the way have the right sizes.
class KindProgress {
  public:
    // `stream` gives, for each slot, the number of its stream in the book.
    KindProgress(const KindPlan& plan, const std::vector<std::int32_t>& stream,
                 std::size_t streams);

    void begin_step();

    std::size_t slot_count() const { return slot_.size(); }
    bool has(std::size_t stream) const { return lanes_[stream].first < lanes_[stream].last; }

    // Returns how unlike `bytes` is to the first request of a stream: 1 within the sizes seen, else
    // the factor to the nearest seen size.
    double unlikeness(std::size_t stream, std::int64_t bytes) const;

    // Takes a request as the next one if it may be. Used for kinds that are only candidates.
    bool follow(std::size_t stream, std::int64_t bytes);
    // Number of taken requests whose size was not likely.
    std::int64_t unlikely_count() const { return unlikely_; }

    // Each finds the slot of a request, or returns -1. The caller tries take_next(), take_found(),
    // take_loosely(), take_over() and pass() in this order.
    std::int32_t take_next(std::size_t stream, std::int64_t bytes);
    std::int32_t take_found(std::size_t stream);
    std::int32_t take_loosely(std::size_t stream, std::int64_t bytes);
    // Takes over from another kind: looks for a position near `progress` at which the other kind's
    // recent requests lie in a row. The positions of all other streams move along.
    std::int32_t take_over(std::size_t stream, const KindProgress& other, std::int64_t progress);
    // Returns true if take_loosely() would take the request.
    bool is_loosely_next(std::size_t stream, std::int64_t bytes) const;
    // Notes that no slot was found.
    void pass(std::size_t stream) { ++lanes_[stream].passed; }

    // Returns true if so many recent requests were unlikely that the step may be of another kind.
    bool is_lost(std::size_t stream) const { return lanes_[stream].bad >= kLost; }
    std::int32_t last_taken(std::size_t stream) const { return slot_[lanes_[stream].next - 1]; }
    // The slot that is expected next, or -1 at the end.
    std::int32_t expected(std::size_t stream) const;
    // Returns for each slot if its request has not come yet.
    std::vector<bool> remaining() const;
    // Number of planned requests that did not come, if the step ends here.
    std::int64_t missing() const;

  private:
    // Last request sizes kept for each stream; more than any search compares. A guess.
    static constexpr std::size_t kRecent = 8;
    // Badness from which a stream counts as lost, and the largest badness. An unlikely request adds
    // 2, a likely one subtracts 1. Guesses.
    static constexpr std::int32_t kLost = 8, kWorst = 16;

    // The slots of one stream, as positions in `slot_`.
    struct Lane {
        std::int32_t first = 0, last = 0;
        std::int32_t next = 0;
        std::int64_t skipped = 0;
        std::array<std::int64_t, kRecent> recent{};
        std::size_t recent_count = 0;
        std::int32_t bad = 0;     // rises with unlikely requests, falls with likely ones
        std::int32_t passed = 0;  // requests in a row without a slot
        std::int32_t failed = 0;  // failed searches in a row
        std::int32_t wait = 0;    // requests until the next search
    };

    bool varies(std::int32_t position) const { return least_[position] != most_[position]; }
    bool is_likely(std::int32_t position, std::int64_t bytes) const;
    bool is_on_curve(std::int32_t position, std::int64_t bytes) const;
    bool is_loose(std::int32_t position, std::int64_t bytes) const;
    std::optional<double> scale_told(std::int32_t position, std::int64_t bytes) const;
    void learn_scale(std::int32_t position, std::int64_t bytes);
    void note(Lane& lane, std::int64_t bytes);
    std::int64_t recent(const Lane& lane, std::size_t back) const;
    std::size_t run_at(const Lane& lane, const Lane& of, std::int32_t position,
                       std::size_t enough) const;
    std::int32_t find_near(const Lane& lane, bool at_loose) const;
    std::int32_t find_scaled(const Lane& lane);
    bool rescale(std::int32_t position, std::int64_t bytes);
    std::int32_t move(Lane& lane, std::int32_t position);

    // Slots ordered by stream, then by number.
    std::vector<std::int32_t> slot_;
    std::vector<std::int64_t> least_, most_;
    std::vector<Lane> lanes_;

    // The sizes of this step lie at `least + scale_ * (most - least)`; and the relative width of
    // the slot that told the scale.
    double scale_ = 0, scale_width_ = 0;
    bool scale_known_ = false;
    double witness_ = 0;  // scale told by the last loosely taken slot
    // The factor on the sizes of all slots that never varied; 1 if these sizes are as before.
    double ratio_ = 1;
    std::int64_t unlikely_ = 0;
};

}  // namespace gapless::runtime
