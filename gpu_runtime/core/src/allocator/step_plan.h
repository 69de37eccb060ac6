// A plan of one training step, and how far the step has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "allocator/mismatch.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Offset of a request that has no place in the arena: it outlives the step.
constexpr std::int64_t kEscapes = -1;

// The requests of one stream in their order, and when in that order each was freed.
struct StreamPlan {
    Stream stream = 0;
    std::vector<std::int64_t> bytes;   // as requested
    std::vector<std::int64_t> offset;  // in the arena, or kEscapes
    // Requests `freed[freed_begin[k]]` up to `freed[freed_begin[k + 1] - 1]` are freed after
    // request k - 1 and before request k. A request that is listed at or before its own number is
    // freed in the step after.
    std::vector<std::int32_t> freed_begin;
    std::vector<std::int32_t> freed;
};

// What happens to a request.
struct Decision {
    enum class Kind : std::uint8_t { planned, escapes, fallback };
    Kind kind;
    std::int32_t slot = -1;
    std::optional<Mismatch> mismatch;
};

// Note [Serving in order]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Request k of a stream goes to offset k. That is right only as long as nothing else
// lies there, which the plan promises for a step that runs like the profiled one: of two requests
// that share bytes one is freed before the other is made. A step that holds a tensor longer than
// the profiled one must not lose its bytes.
// Approach. A slot is a request of the plan. A slot in use whose free should have come by now is
// *overdue*. When request k comes, the frees that the profile has before it have passed, and slots
// in use among them become overdue. While none is, every slot in use is one that the profile has in
// use before request k as well: it came before k in this step, or before this step began and lives
// on in the profile too, and its free has not passed. The plan keeps k apart from these, which was
// checked when it was adopted, so that nothing needs to be looked at: O(1). Otherwise k's bytes are
// looked for among those of overdue slots, and where one is in the way the request goes elsewhere.
// Frees that come early only make room. Where requests are missing or added, sizes differ and the
// request goes elsewhere. As soon as three requests in a row are found further on in the plan, the
// step goes on from there; what was passed over is not in use, and its frees change nothing.
// Limits. Sizes do not identify a request. A step with other requests of the same sizes is served
// with the right sizes at places that are free, which is all that is promised.
class StepPlan {
  public:
    // Throws std::invalid_argument where columns do not fit together, leave the arena, or let two
    // requests that are in use at one time share bytes; std::length_error for more requests than
    // are taken, OutOfDeviceMemory for more bytes than any device has.
    StepPlan(std::vector<StreamPlan> streams, std::size_t arena_bytes);

    std::size_t arena_bytes() const { return arena_bytes_; }

    void begin_step();
    // Returns how many requests of the plan did not come in order.
    std::int64_t end_step();

    // Decides about the next request of a stream, and takes its slot where the plan serves it.
    Decision request(Stream stream, std::size_t bytes);

    // Slot in use at an offset of the arena, -1 where none is.
    std::int32_t slot_at(std::uint64_t offset) const;
    void release(std::int32_t slot);

    std::int64_t offset_of(std::int32_t slot) const { return offset_[slot]; }
    std::int64_t end_of(std::int32_t slot) const;  // offset behind its last block
    std::int64_t bytes_of(std::int32_t slot) const { return bytes_[slot]; }
    Stream stream_of(std::int32_t slot) const;
    std::int64_t slots_in_use() const { return in_use_count_; }

  private:
    struct StreamProgress {
        Stream stream;
        std::int32_t first;  // slots
        std::int32_t last;
        std::int32_t next;                     // slot that is expected
        std::int32_t settled;                  // up to this slot the frees before it have passed
        std::vector<std::int64_t> unexpected;  // sizes in a row that were not expected
        std::int64_t missing = 0;
    };

    StreamProgress* progress_of(Stream stream);
    Decision take(StreamProgress& progress, std::int32_t slot);
    Decision resume(StreamProgress& progress, std::size_t bytes);
    std::int32_t find_recent(const StreamProgress& progress) const;
    void pass_frees(StreamProgress& progress, std::int32_t slot);
    void mark_overdue(std::int32_t slot);
    std::int32_t overdue_in_the_way(std::int32_t slot) const;
    std::size_t bucket_of(std::uint64_t offset) const;
    void build_places();

    std::size_t arena_bytes_;
    std::vector<StreamProgress> streams_;
    std::vector<std::int64_t> bytes_;
    std::vector<std::int64_t> offset_;
    std::vector<std::int32_t> freed_begin_;
    std::vector<std::int32_t> freed_;
    std::vector<std::uint8_t> wraps_;  // is freed in the step after
    std::vector<std::uint8_t> in_use_;
    std::int64_t in_use_count_ = 0;
    // Overdue slots by where they end: they are in use, so no two share a byte.
    std::map<std::int64_t, std::int32_t> overdue_;

    // Open addressing by offset: where a slot begins, and the slot that is in use there.
    std::vector<std::int64_t> place_offset_;
    std::vector<std::int32_t> place_slot_;
    std::vector<std::uint32_t> place_of_slot_;
    int place_shift_ = 0;
};

}  // namespace gapless::runtime
