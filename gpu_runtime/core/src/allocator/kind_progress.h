// How far a step has come in one kind of step.
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
// Rationale. A plan helps as long as it is known which request of the plan a request is. Real steps
// have a few requests more or less, and all of other sizes at other lengths of a sequence. Nothing
// depends on a right answer but memory, so what matters is to have it again soon.
// Approach. Each stream has its own position, since streams interleave anew in every step. The
// request at the position is the answer where the size is likely: a slot that was always the same
// is as likely as it is equal; the sizes of the others lie on lines over the length of the step,
// nearly all of them, so that one slot tells where between least and most the others are, also
// beyond both. Where a size is not likely the last requests of the stream are looked for in a row,
// nearest first, and the farther away the more of them must be there. Where every size was always
// the same and now none is, one ratio explains a row of them, and another length of a sequence
// another place on all lines. A size that fits nowhere better is
// taken for the slot at the position if that one varies, otherwise for a request that the plan does
// not have.
// Limits. Equal layers look alike: where one is left out, the step goes on in the wrong one until
// the last, which is too short. All hints there are of the right sizes.
class KindProgress {
  public:
    // `stream` says for each slot which of the book's streams it is of.
    KindProgress(const KindPlan& plan, const std::vector<std::int32_t>& stream,
                 std::size_t streams);

    void begin_step();

    std::size_t slot_count() const { return slot_.size(); }
    bool has(std::size_t stream) const { return lanes_[stream].first < lanes_[stream].last; }

    // How unlike the bytes are to the first request of a stream: 1 within what was seen.
    double unlikeness(std::size_t stream, std::int64_t bytes) const;

    // Takes a request as the next one, if it may be; used for kinds that only might be the one.
    bool follow(std::size_t stream, std::int64_t bytes);
    // Not likely, of those that were taken.
    std::int64_t unlikely_count() const { return unlikely_; }

    // The slot of a request, in five steps of which each is asked where the one before said -1.
    std::int32_t take_next(std::size_t stream, std::int64_t bytes);
    std::int32_t take_found(std::size_t stream);
    std::int32_t take_loosely(std::size_t stream, std::int64_t bytes);
    // Of a kind that was not thought of: a request somewhere near `progress`, where the recent ones
    // of the other kind lie in a row. The other streams go to where they are then.
    std::int32_t take_over(std::size_t stream, const KindProgress& other, std::int64_t progress);
    // Whether take_loosely() would take it.
    bool is_loosely_next(std::size_t stream, std::int64_t bytes) const;
    // Nothing was found.
    void pass(std::size_t stream) { ++lanes_[stream].passed; }

    // Whether so many requests were unlikely lately that this may be another kind.
    bool is_lost(std::size_t stream) const { return lanes_[stream].bad >= kLost; }
    std::int32_t last_taken(std::size_t stream) const { return slot_[lanes_[stream].next - 1]; }
    // The slot that is expected next, -1 at the end.
    std::int32_t expected(std::size_t stream) const;
    // Requests that did not come, if the step ends here.
    std::int64_t missing() const;

  private:
    static constexpr std::size_t kRecent = 8;
    static constexpr std::int32_t kLost = 8, kWorst = 16;

    // The slots of one stream, by position in `slot_`.
    struct Lane {
        std::int32_t first = 0, last = 0;
        std::int32_t next = 0;
        std::int64_t skipped = 0;
        std::array<std::int64_t, kRecent> recent{};
        std::size_t recent_count = 0;
        std::int32_t bad = 0;     // rises with unlikely requests, falls with likely ones
        std::int32_t passed = 0;  // in a row that were not found
        std::int32_t failed = 0;  // searches in a row
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

    // Ordered by stream, then by slot.
    std::vector<std::int32_t> slot_;
    std::vector<std::int64_t> least_, most_;
    std::vector<Lane> lanes_;

    // Where between least (0) and most (1) the sizes of this step are, and how wide the slot was
    // that told.
    double scale_ = 0, scale_width_ = 0;
    bool scale_known_ = false;
    double witness_ = 0;  // what the last slot told that was taken loosely
    // What all sizes are multiplied by that were always the same; 1 where they are as ever.
    double ratio_ = 1;
    std::int64_t unlikely_ = 0;
};

}  // namespace gapless::runtime
