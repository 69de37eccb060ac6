#include "homosize/requests.h"

#include <string>

#include "model/require.h"

namespace gapless {

void require_lifetimes(std::span<const std::int64_t> start, std::span<const std::int64_t> end) {
    require_count("start", start.size());
    require_length("end", end.size(), "start", start.size());
    for (std::size_t r = 0; r < start.size(); ++r) {
        if (start[r] < end[r]) continue;
        refuse("end", r, "an end above its start, " + std::to_string(start[r]) + ", is needed",
               end[r]);
    }
}

void require_rising(std::span<const std::int64_t> start) {
    for (std::size_t r = 1; r < start.size(); ++r) {
        if (start[r] >= start[r - 1]) continue;
        refuse("start", r, "requests come by their starts, after " + std::to_string(start[r - 1]),
               start[r]);
    }
}

Requests::Requests(std::span<const std::int64_t> size_of_each,
                   std::span<const std::int64_t> start_of_each,
                   std::span<const std::int64_t> end_of_each)
    : size(size_of_each), start(start_of_each), end(end_of_each) {
    require_length("start", start.size(), "size", size.size());
    require_lifetimes(start, end);
    require_at_least("size", size, 1);
    require_total("size", size);
}

}  // namespace gapless
