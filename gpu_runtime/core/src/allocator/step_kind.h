// A kind of step: steps that made the same requests and frees from end to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// End of a request whose block outlives its step.
constexpr std::int32_t kOutlives = std::numeric_limits<std::int32_t>::max();

// Label of what a program does from the end of a step to the begin of the next one.
constexpr std::int32_t kBetween = -1;

// Time is counted in requests: a block that is freed before request `q` of a step is made ends at
// `q`.
struct StepRequest {
    Stream stream;
    std::int64_t bytes;
    std::int32_t end = kOutlives;
};

// The free of a block that an earlier step requested.
struct LateFree {
    std::int64_t kind;     // of the earlier step
    std::int32_t request;  // its number in that step
    std::int32_t at;
    std::int64_t age;  // 1 if the earlier step was the last one of its kind, 2 for the one before
};

struct StepKind {
    std::int64_t number = -1;  // unique among all kinds that the program ever had
    std::int32_t label = 0;    // 0: a step without a name; 1, 2, ...: named by the user; kBetween
    std::uint64_t digest = 0;
    std::vector<StepRequest> requests;
    std::vector<LateFree> late_frees;
    std::int64_t seen = 0;       // number of such steps
    std::int64_t planless = 0;   // number of them before its last plan went
    std::int64_t needed = 2;     // so many more are needed for a plan; doubles when its plan goes
    std::int64_t last_seen = 0;  // the last such step, counted over all steps

    // Equal steps have equal digests. A wrong plan costs memory and no data, so 64 bits are enough.
    void digest_all();
};

}  // namespace gapless::runtime
