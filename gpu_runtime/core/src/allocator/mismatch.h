// A request that is not served at its planned place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_memory.h"

namespace gapless::runtime {

enum class MismatchKind : std::uint8_t {
    size,    // the plan has another size next
    extra,   // the plan has no request any more
    stream,  // the plan has no such stream
    in_use,  // something else lies in its place
    grown,   // it is larger than its place
};
constexpr std::size_t kMismatchKinds = 5;

struct Mismatch {
    MismatchKind kind;
    std::int64_t step = 0;
    Stream stream = 0;
    std::size_t bytes = 0;
    std::int64_t request = -1;         // of its kind of step, the one that was expected
    std::int64_t expected_bytes = -1;  // at most
    std::int64_t in_the_way = -1;      // request whose place is still in use
    std::int64_t number = -1;          // of all mismatches of the allocator
    std::int32_t step_kind = -1;       // in the book
};

}  // namespace gapless::runtime
