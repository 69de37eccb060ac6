#include "allocator/step_kind.h"

namespace gapless::runtime {

void StepKind::digest_all() {
    std::uint64_t mixed = static_cast<std::uint64_t>(label);
    // The finalizer of splitmix64, over the running digest and the next word.
    const auto mix = [&](std::uint64_t word) {
        mixed = (mixed ^ word) * 0x9E3779B97F4A7C15u;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed ^= mixed >> 31;
    };
    for (const StepRequest& request : requests) {
        mix(request.stream);
        mix(static_cast<std::uint64_t>(request.bytes));
        mix(static_cast<std::uint64_t>(request.end));
    }
    // The number of a request and a time have 32 bits each.
    for (const LateFree& late : late_frees) {
        mix(static_cast<std::uint64_t>(late.request) << 32 | static_cast<std::uint64_t>(late.at));
    }
    digest = mixed;
}

}  // namespace gapless::runtime
