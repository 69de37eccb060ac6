// The plan of a step that repeats: its requests, and the place of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Offset of a request without a place in the arena.
constexpr std::int64_t kNoPlace = -1;

struct StepPlan {
    // Number of the kind of step; -1 for steps that were not seen yet.
    std::int64_t kind = -1;
    std::vector<Stream> stream;        // one entry a request, in the order of requests
    std::vector<std::int64_t> bytes;   // as requested
    std::vector<std::int64_t> offset;  // of its place, or kNoPlace
    std::vector<Address> beside =
        {};  // the block in use from which the offset counts; 0: the arena
    std::vector<std::uint8_t> handed_over = {};  // 1 if another stream takes some of its bytes next

    std::size_t request_count() const { return stream.size(); }
};

// Throws std::invalid_argument if columns do not fit together or a place leaves the arena, and
// OutOfDeviceMemory for more bytes than any device has.
void require_plans(const std::vector<StepPlan>& plans, std::size_t arena_bytes);

}  // namespace gapless::runtime
