// The steps of a program: records them, knows which repeat, and follows the plans of those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "allocator/block.h"
#include "allocator/mismatch.h"
#include "allocator/step_kind.h"
#include "allocator/step_plan.h"

namespace gapless::runtime {

// The outcome of a step.
struct StepEnd {
    std::int64_t kind = -1;       // the kind of step that it was; -1 if it was not recorded
    bool is_planned = false;      // it followed its plan from end to end
    std::int64_t planned = 0;     // requests that were served at their places
    std::int64_t escaping = 0;    // requests that their plan expects, and has no place for
    std::int64_t unexpected = 0;  // requests from the first one that differed from the plan
};

// Note [Plans are for exact repetition]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan for steps that only resemble each other needs places that are larger than most
// requests, a guess of the running kind, and a search whenever the guess was wrong. In replays of
// 15 recorded programs whose steps differ, the heap without a plan reserved less than with one or
// the same on 14, and made fewer device calls on all.
// Approach. A step is recorded from end to end: streams, sizes and order of its requests, and the
// frees between them. Steps with equal records are of one kind. A kind that was seen twice can be
// planned. At the beginning of a step the expected kind is the one that followed last time, or else
// the planned one that was seen last. While the requests are those of its plan, they get its
// places. A request whose place is occupied is the heap's, and the step goes on. At a request that
// differs, a plan takes over that has all requests so far. If there is none, the rest of the step
// is the heap's. A plan that kMostLeft steps in a row did not follow from end to end goes, and its
// kind has to repeat twice as often to be planned anew. The requests between two steps are recorded
// like a step, so that the batch of a loader has a place. A kind may have several plans, one for
// each phase: `loss = train(batch)` frees a loss after the next one was requested, so that its
// place differs from step to step. They are followed in turn.
//
// Limits. A program that draws the kinds of its steps at random follows a plan only by luck.
class RepeatedSteps {
  public:
    // Each throws std::logic_error if a step is running, or if none is. begin_step() returns the
    // outcome of what came between the steps.
    StepEnd begin_step(std::int32_t label);
    // `completed` is false for a step that an exception ended; such a step teaches nothing.
    StepEnd end_step(bool completed);
    bool in_step() const { return in_step_; }
    // Number of steps that have ended.
    std::int64_t steps() const { return steps_; }

    struct Place {
        std::int64_t offset = kNoPlace;
        Address beside = 0;
        bool handed_over = false;
    };
    // Returns the place of the next request. O(1), unless another plan takes over.
    Place next(Stream stream, std::size_t bytes);
    // The place that next() returned is occupied: the heap serves this request.
    void note_occupied(Stream stream, std::size_t bytes);
    // Returns how the last request was not served as planned, once.
    std::optional<Mismatch> take_mismatch() { return std::exchange(mismatch_, std::nullopt); }
    // Records a served request, and the free of a block.
    void note_request(Block& block);
    void note_free(const Block& block);

    // The kinds to be planned together: all that were seen twice. Empty without news. With
    // `is_first`, only steps of a label that has settled are news: its last new kind came in the
    // first half of its steps. A plan that is made earlier would lack the kinds still to come.
    std::vector<StepKind> to_plan(bool is_first) const;
    const std::vector<StepKind>& kinds() const { return kinds_; }

    // Replaces the plans, between steps. Throws what require_plans() throws.
    void adopt(std::vector<StepPlan> plans, std::size_t arena_bytes);
    bool has_plans() const { return !plans_.empty(); }
    // Returns true while the running record equals the plan that it follows.
    bool is_following() const { return followed_ != nullptr && !has_left_; }
    std::size_t arena_bytes() const { return arena_bytes_; }
    // The step leaves its plan: the frames of its places serve other requests.
    void leave();
    // The kind of the step that requested a block; -1 for none, or if the step has not ended.
    std::int64_t kind_of(const Block& block) const;

  private:
    // Kinds that are kept. The one that was not seen for longest goes first. A guess.
    static constexpr std::size_t kMostKinds = 16;
    // A plan goes when so many of its steps in a row did not follow it. A guess.
    static constexpr int kMostLeft = 3;

    struct Followed {
        StepPlan plan;
        int left = 0;                 // steps in a row that did not follow it to the end
        std::int64_t last_turn = -1;  // the last record that ended with it
    };
    // A record whose blocks are not all freed: its kind, -1 if it was dropped, and how often the
    // kind had been seen by then.
    struct Recorded {
        std::int64_t kind, seen;
        std::int64_t in_use;  // number of its blocks
    };

    void begin_record(std::int32_t label);
    StepEnd end_record(bool completed);
    std::optional<MismatchKind> mismatch_of(const StepPlan& plan, Stream stream,
                                            std::size_t bytes) const;
    bool take_over(Stream stream, std::size_t bytes);
    bool is_settled(std::int32_t label) const;
    void note_mismatch(MismatchKind kind, std::size_t request, Stream stream, std::size_t bytes);
    std::optional<std::int64_t> expected_kind(std::int32_t label) const;
    Followed* turn_of(std::optional<std::int64_t> kind);
    StepKind* find_kind(std::int64_t number);
    StepKind& kind_of_step(StepKind&& step);
    void end_following(bool completed);

    bool in_step_ = false;
    std::int64_t steps_ = 0;
    // The record of the running step, or since the last one. There is none before the first step.
    bool is_recording_ = false;
    StepKind running_;
    std::int64_t record_ = 0;                // its number
    std::int64_t in_use_ = 0;                // number of its blocks that are not freed
    std::vector<LateFree> freed_meanwhile_;  // between two steps without a request there
    std::map<std::int64_t, Recorded> recorded_;
    std::vector<StepKind> kinds_;
    struct Label {
        std::int64_t seen = 0;      // number of its steps
        std::int64_t last_new = 0;  // its last step of a new kind, counted from 0
    };
    std::map<std::int32_t, Label> labels_;
    std::int64_t next_number_ = 0;
    // The last kind of step, and the last kind of requests between two steps.
    std::int64_t last_step_ = -1, last_between_ = -1;
    // The kind that followed these two, by its label.
    std::map<std::tuple<std::int64_t, std::int64_t, std::int32_t>, std::int64_t> followed_by_;

    std::vector<Followed> plans_;
    std::size_t arena_bytes_ = 0;
    Followed* followed_ = nullptr;  // the plan that the running step follows
    std::size_t next_ = 0;          // the next request in it
    bool has_left_ = false;
    StepEnd end_;
    std::optional<Mismatch> mismatch_;
};

}  // namespace gapless::runtime
