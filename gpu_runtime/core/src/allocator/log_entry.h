// The allocator's log of requests, frees and steps.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

// One event of the log, as a row of numbers. `kind` and `slot` are what the book took the request
// for, or -1.
struct LogEntry {
    enum class What : std::int64_t { request, free, step_begins, step_ends };
    What what;
    std::int64_t request = -1;  // number of the request since the process began
    std::int64_t bytes = 0;     // as requested; for a step that begins, its label
    std::int64_t stream = 0;    // stream handle
    std::int64_t kind = -1;
    std::int64_t slot = -1;
};

// Python reads the log in place, as rows of this many int64.
constexpr std::size_t kLogColumns = 6;
static_assert(sizeof(LogEntry) == kLogColumns * sizeof(std::int64_t));

}  // namespace gapless::runtime
