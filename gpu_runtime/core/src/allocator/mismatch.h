// A request at which a step leaves its plan.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_memory.h"

namespace gapless::runtime {

enum class MismatchKind : std::uint8_t {
    size,    // the plan expects another size
    extra,   // the plan expects no more requests
    stream,  // the plan has no such stream
    in_use,  // another block lies in its place
};
constexpr std::size_t kMismatchKinds = 4;

struct Mismatch {
    MismatchKind kind;
    std::int64_t step = 0;
    Stream stream = 0;
    std::size_t bytes = 0;
    std::int64_t request = -1;         // its number in the step
    std::int64_t expected_bytes = -1;  // in the plan; -1 if it expects no further request
    std::int64_t number = -1;          // among all mismatches of the allocator
};

}  // namespace gapless::runtime
