// The book of a program: finds the kind of the running step, and the best place of each request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/kind_plan.h"
#include "allocator/kind_progress.h"
#include "allocator/mismatch.h"

namespace gapless::runtime {

// The outcome of a step.
struct StepEnd {
    std::int32_t kind = -1;  // the kind of step, or -1 if it matches none
    std::int64_t planned = 0;
    std::int64_t escaping = 0;    // requests whose slot has no place
    std::int64_t grown = 0;       // requests larger than their places
    std::int64_t unexpected = 0;  // requests that are not in the plan
    std::int64_t missing = 0;     // planned requests that did not come
    std::int64_t in_use = 0;      // planned requests whose place was occupied
};

// Note [Which kind of step it is]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Steps with and without the optimizer, evaluation, and sequence lengths that select
// other kernels make different requests, and the program does not announce the kind.
// Approach. The size of the first request selects the kind. Ties go to the kind that followed the
// last kinds before. All requests of the step are recorded; when one does not fit, a kind that fits
// all of them takes over. Each kind is compared with each request once, so this costs no more than
// a step. If a step is lost within its kind, its last requests are searched for in the other kinds.
// Limits. Kinds are told apart only by their requests. Until these differ, a step gets the hints of
// the likelier kind, all from one plan. After a switch, some tensors occupy places of the other
// plan until they are freed.
//
// Note [Steps that grow]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A sequence longer than any before has hundreds of requests that are larger than their
// places. All of them would need memory at once beside an idle arena.
// Approach. Disjoint places stay disjoint if all offsets and lengths are multiplied by the same
// factor. The first request that is too large gives the factor. All places of the rest of the step
// are stretched by it. The arena grows along, as long as it stays little above the live peak,
// because a request may be too large for other reasons.
// Limits. A request that grows faster, such as with the square of the length, has no place in such
// a step. Blocks from before the first grown request keep their addresses.
//
// Note [Steps that are unlike all]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A book may describe steps that do not recur: a mixture of experts sometimes makes two
// steps with equally many requests of one-off sizes. Wrong hints spread a step over the arena, and
// the rest of the step needs memory beside it. A recorded mixture reserved 10 % more than the live
// peak with such hints, and 1.6 % when the hints ended.
// Approach. If many requests of a step find their places occupied, the rest of the step gets no
// hints, and idle memory of the arena moves to where it is needed.
// Limits. A step whose places are held by blocks that stay is served like this too, until the next
// book is planned around them.
class Book {
  public:
    Book() = default;  // an empty book: predicts nothing
    // Throws what require_kinds() throws.
    Book(std::vector<KindPlan> kinds, std::size_t arena_bytes);

    std::size_t arena_bytes() const { return arena_bytes_; }
    const std::vector<KindPlan>& kinds() const { return kinds_; }

    void begin_step(std::int32_t label);

    struct Place {
        std::int32_t kind = -1, slot = -1;
        std::int64_t offset = kNoPlace;
        std::int64_t spare = kNoPlace;  // tried if the place at `offset` is occupied
        bool handed_over = false;
        std::optional<Mismatch> mismatch;
    };
    // Takes O(1) time and allocates nothing for a step that follows its plan. A place may end
    // behind the arena's end, see Note [Steps that grow].
    Place request(Stream stream, std::size_t bytes);

    // Notes that the place returned last was occupied.
    void was_in_use() { ++end_.in_use; }

    // The places of requests that the running step has still to make, as far as it follows its
    // plan: disjoint ranges, in order of their addresses.
    std::vector<ArenaRange> needed_places() const;

    StepEnd end_step();

  private:
    struct Request {
        std::int32_t stream;  // number in the book, or -1 if the book lacks it
        std::int64_t bytes;
    };
    // How many requests of the step a kind was compared with, and whether all fitted in order.
    struct Following {
        std::size_t checked = 0;
        bool in_order = true;
    };

    bool is_given_up() const { return end_.in_use > most_missed_; }
    void order_candidates();
    std::int32_t stream_of(Stream handle, std::int64_t bytes);
    std::int32_t bind_role(Stream handle, std::int64_t bytes);
    void choose(const Request& first);
    bool follow_all(std::int32_t kind);
    std::int32_t follower();
    Place find(const Request& request, Stream handle);
    Place take(std::int32_t slot, std::int64_t bytes, Stream handle);
    std::int64_t stretched(std::int64_t offset) const;
    bool is_seen(std::int32_t kind, std::int32_t slot, std::int64_t bytes) const;
    std::int32_t take_where_seen(const Request& request, std::int32_t slot);
    Place refuse(const Request& request, Stream handle);
    bool is_complete(std::int32_t kind);

    std::vector<KindPlan> kinds_;
    std::vector<KindProgress> progress_;  // one for each kind
    std::vector<Following> following_;    // one for each kind
    // For each kind, the slots that have places, by offset.
    std::vector<std::vector<std::int32_t>> by_offset_;
    std::size_t arena_bytes_ = 0;
    std::int64_t most_missed_ = 0;

    std::vector<Stream> names_;    // of the book's streams
    std::vector<Stream> handles_;  // the handles bound to them
    std::vector<bool> bound_;
    std::size_t last_stream_ = 0;

    std::vector<std::int32_t> candidates_;  // kinds with the step's label, likeliest first
    std::int32_t current_ = -1;
    std::vector<Request> requests_;  // the step's first requests, enough to tell kinds apart
    std::int64_t request_count_ = 0;
    double stretch_ = 1;
    bool is_size_seen_ = false;  // the first size new to the current kind was looked up
    std::int64_t next_foreign_ = 0, foreign_wait_ = 0;  // rations the searches of all kinds
    StepEnd end_;

    std::int32_t label_ = kBetweenSteps;
    // The last steps: label and kind.
    std::vector<std::pair<std::int32_t, std::int32_t>> history_;
};

}  // namespace gapless::runtime
