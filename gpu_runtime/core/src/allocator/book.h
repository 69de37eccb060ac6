// The kinds of step of a program: which one runs, and where its next request best lies.
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

// How a step went.
struct StepEnd {
    std::int32_t kind = -1;  // that it was, -1 where it was none
    std::int64_t planned = 0;
    std::int64_t escaping = 0;       // slots without a place
    std::int64_t grown = 0;          // larger than their places
    std::int64_t unexpected = 0;     // not in the plan
    std::int64_t missing = 0;        // in the plan, and did not come
    std::int64_t in_use = 0;         // not planned after all: something lay in their places
    std::int64_t reserved_peak = 0;  // the allocator's
};

// Note [Which kind of step it is]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Steps with and without the optimizer, evaluation, and lengths at which other kernels
// are taken make other requests, and nobody says which comes.
// Approach. The first request says, by its size; between kinds that it may be of, what followed the
// last kinds before. All requests of a step are written down, so that when one does not fit, a kind
// that they all fit takes over; a kind is held against each request once, so that this costs no
// more than a step. Where a step is lost in its kind, its last requests are looked for in the
// others. Limits. A kind is known by its requests. Until they differ a step gets the hints of the
// kind that is thought likelier, all of one plan; then some of its tensors lie where the other plan
// has others, until they end.
//
// Note [Steps that grow]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A sequence that is longer than any before has hundreds of requests that are larger
// than their places, which all at once need memory beside an arena that is idle. Approach. Places
// that lie apart do so when their offsets and their lengths are multiplied by the same number. The
// first request that is too large says which; all places of the rest of the step are stretched so,
// and the arena with them, as long as it stays little above what lives: a request may be too large
// for other reasons. Limits. What grows by more than that, as by the square of the length, has no
// place in such a step. What came before the first grown request lies where it lay.
//
// Note [Steps that are unlike all]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A book may be of steps that do not come again: mixtures of experts now and then make
// two steps of as many requests, whose sizes are of the moment. Wrong hints spread a step over the
// arena, and memory for the rest of it comes beside: a recorded mixture reserved 10 % more than
// lived, and 1.6 % when they ended. Approach. Where many requests of a step find their places
// occupied, the rest of it gets no hints; what is idle of the arena goes to where it is needed.
// Limits. A step whose places are held by what stays is served so too, until the next book is
// planned around it.
class Book {
  public:
    Book() = default;  // predicts nothing, and counts
    // Throws as require_kinds() does.
    Book(std::vector<KindPlan> kinds, std::size_t arena_bytes);

    std::size_t arena_bytes() const { return arena_bytes_; }
    const std::vector<KindPlan>& kinds() const { return kinds_; }

    void begin_step(std::int32_t label);

    struct Place {
        std::int32_t kind = -1, slot = -1;
        std::int64_t offset = kNoPlace;
        std::int64_t spare = kNoPlace;  // where the first one is occupied
        bool handed_over = false;
        std::optional<Mismatch> mismatch;
    };
    // O(1) and without memory of its own for a step like the plan's. A place may lie behind the
    // arena's end, up to stretched_bytes().
    Place request(Stream stream, std::size_t bytes);

    // The place that was given last is occupied.
    void was_in_use() { ++end_.in_use; }

    StepEnd end_step();

    // Bytes that the step may use of an arena, see Note [Steps that grow].
    std::size_t stretched_bytes() const {
        return static_cast<std::size_t>(stretch_ * static_cast<double>(arena_bytes_));
    }

  private:
    struct Request {
        std::int32_t stream;  // of the book, -1 for one that it does not have
        std::int64_t bytes;
    };
    // How far a kind was held against the requests of the step.
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
    std::vector<KindProgress> progress_;  // one a kind
    std::vector<Following> following_;    // one a kind
    std::size_t arena_bytes_ = 0;
    std::int64_t most_missed_ = 0;

    std::vector<Stream> names_;    // of the streams of the book
    std::vector<Stream> handles_;  // that ask for them
    std::vector<bool> bound_;
    std::size_t last_stream_ = 0;

    std::vector<std::int32_t> candidates_;  // kinds of the step's label, likeliest first
    std::int32_t current_ = -1;
    std::vector<Request> requests_;  // of the step, as many as may tell kinds apart
    std::int64_t request_count_ = 0;
    double stretch_ = 1;
    bool is_size_seen_ = false;  // the first size that the current kind never had was looked for
    std::int64_t next_foreign_ = 0, foreign_wait_ = 0;  // when all kinds are searched
    StepEnd end_;

    std::int32_t label_ = kBetweenSteps;
    // What came, by label; the last ones.
    std::vector<std::pair<std::int32_t, std::int32_t>> history_;
};

}  // namespace gapless::runtime
