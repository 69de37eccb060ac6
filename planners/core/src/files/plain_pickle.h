// A check of pickles of plain containers, made before any object is built from them.
#pragma once

#include <cstdint>
#include <span>

#include "model/stop.h"

namespace gapless {

// The fault of a pickle. `rule` is the key under which Python words the message; it is empty if the
// pickle has no fault. `number` is the length, the opcode or the index that breaks the rule.
struct PickleFault {
    const char* rule = "";
    std::uint64_t number = 0;
    // Bytes behind the place of the fault.
    std::uint64_t left = 0;
};

struct PickleLimits {
    std::uint64_t containers;
    std::uint64_t scalars;
    std::uint64_t integer_bytes;
};

// Runs the opcodes on the types of the values only. A pickle without a fault contains only the
// opcodes of plain containers, and all its lengths, marks, memo entries and keys are valid.
PickleFault find_pickle_fault(std::span<const std::uint8_t> data, const PickleLimits& limits,
                              Stop& stop);

}  // namespace gapless
