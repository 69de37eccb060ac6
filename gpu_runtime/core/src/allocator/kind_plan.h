// What one kind of step asks for, and where it best lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Offset of a request that has no place in the arena.
constexpr std::int64_t kNoPlace = -1;
// Label of what runs between two steps.
constexpr std::int32_t kBetweenSteps = -1;
// Handles differ from process to process. A plan from a file names its streams, but for the default
// one, by numbers from here on; no handle is as large. The first stream that asks what such a
// stream is to ask is that stream from then on.
constexpr Stream kFirstRole = Stream{1} << 62;

struct KindPlan {
    std::int32_t label = 0;           // 0: a step without a name; 1, 2, ...: named by the user
    std::vector<Stream> stream;       // a slot a request, in the order of requests of all streams
    std::vector<std::int64_t> least;  // bytes as requested, the smallest and largest seen
    std::vector<std::int64_t> most;
    std::vector<std::int64_t> offset;  // of a place for `most` bytes, or kNoPlace
    // Of a place within its step, or kNoPlace, for a request whose place may still be held by the
    // one of a step before: a gradient that is added to what earlier steps have left.
    std::vector<std::int64_t> spare;
    std::vector<std::uint8_t> handed_over;  // another stream gets bytes of it next

    std::size_t slot_count() const { return stream.size(); }
};

// Of a step; throws std::invalid_argument for one that no kind can have.
void require_label(std::int32_t label);

// Throws std::invalid_argument where columns do not fit together or places leave the arena,
// std::length_error for more kinds, requests or streams than are taken, OutOfDeviceMemory for more
// bytes than any device has.
void require_kinds(const std::vector<KindPlan>& kinds, std::size_t arena_bytes);

}  // namespace gapless::runtime
