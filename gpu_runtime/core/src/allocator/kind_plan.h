// The plan of one kind of step: its requests, and the best place of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Offset of a request without a place in the arena.
constexpr std::int64_t kNoPlace = -1;
// Label of the requests between two steps.
constexpr std::int32_t kBetweenSteps = -1;
// Stream handles differ between processes. So a plan from a file numbers its streams from here on,
// except the default stream. No real handle is as large. The first stream that makes a request of
// such a numbered stream is bound to it from then on.
constexpr Stream kFirstRole = Stream{1} << 62;

// Bytes of the arena, by their offsets.
struct ArenaRange {
    std::size_t begin = 0, end = 0;
};

struct KindPlan {
    std::int32_t label = 0;           // 0: a step without a name; 1, 2, ...: named by the user
    std::vector<Stream> stream;       // one entry a slot, in the order of all requests
    std::vector<std::int64_t> least;  // smallest and largest requested bytes seen
    std::vector<std::int64_t> most;
    std::vector<std::int64_t> offset;  // of a place for `most` bytes, or kNoPlace
    // A second place that is free within the step, or kNoPlace. It serves a request whose place may
    // still be held from an earlier step, such as a gradient that several steps accumulate.
    std::vector<std::int64_t> spare;
    std::vector<std::uint8_t> handed_over;  // 1 if another stream takes some of its bytes next

    std::size_t slot_count() const { return stream.size(); }
};

// Throws std::invalid_argument for a step label that no kind can have.
void require_label(std::int32_t label);

// Throws std::invalid_argument if columns do not fit together or a place leaves the arena,
// std::length_error for more kinds, requests or streams than are allowed, and OutOfDeviceMemory for
// more bytes than any device has.
void require_kinds(const std::vector<KindPlan>& kinds, std::size_t arena_bytes);

}  // namespace gapless::runtime
