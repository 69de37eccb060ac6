// What an allocator writes down of what it was asked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

// What happened, in order, a row of numbers. Kind and slot are those of the request, as the book
// took it, -1 for none.
struct LogEntry {
    enum class What : std::int64_t { request, free, step_begins, step_ends };
    What what;
    std::int64_t request = -1;  // its number, from the first of the process on
    std::int64_t bytes = 0;     // of a request; of a step that begins, its label
    std::int64_t stream = 0;    // its handle
    std::int64_t kind = -1;
    std::int64_t slot = -1;
};

// Python reads a log as it lies here.
constexpr std::size_t kLogColumns = 6;
static_assert(sizeof(LogEntry) == kLogColumns * sizeof(std::int64_t));

}  // namespace gapless::runtime
