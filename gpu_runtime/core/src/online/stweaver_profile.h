// What STWeaver knows of a program before it runs: one profiled iteration and its plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Bytes [begin, end) of the static pool.
struct PoolRange {
    std::size_t begin, end;
};

// A visit is a module within a phase of an iteration; its number is below `visits`.
struct StweaverProfile {
    // The planned place of a static request.
    struct Place {
        std::int64_t visit;
        std::size_t bytes;  // as requested
        std::size_t offset;
    };
    // Where dynamic requests of a visit may lie: in the intervals of a list.
    struct Space {
        std::int64_t visit;
        std::size_t bytes;  // as requested; 0 for the requests of every size without an entry
        std::size_t list;
    };

    std::size_t pool_bytes = 0;
    // The pool serves this stream alone: streams that share bytes would have to wait.
    Stream stream = 0;
    std::size_t visits = 0;
    std::vector<Place> places;  // requests of one visit and size take them in this order
    std::vector<Space> spaces;  // at most one for a visit and a size
    // List i is the intervals from list_begins[i] to list_begins[i + 1], ascending and apart.
    std::vector<std::size_t> list_begins = {0};
    std::vector<PoolRange> intervals;

    // Throws std::invalid_argument where a rule is broken.
    void validate() const;
};

}  // namespace gapless::runtime
