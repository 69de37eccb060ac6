// A request that is not served at its planned place.
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
    grown,   // it is larger than its place
};
constexpr std::size_t kMismatchKinds = 5;

struct Mismatch {
    MismatchKind kind;
    std::int64_t step = 0;
    Stream stream = 0;
    std::size_t bytes = 0;
    std::int64_t request = -1;         // the request expected, by its number in the kind of step
    std::int64_t expected_bytes = -1;  // largest size of that request
    std::int64_t in_the_way = -1;      // the request whose block lies in the place
    std::int64_t number = -1;          // among all mismatches of the allocator
    std::int32_t step_kind = -1;       // kind of step in the book
};

}  // namespace gapless::runtime
