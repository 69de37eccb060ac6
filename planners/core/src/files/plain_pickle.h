// Pickles of plain containers, looked through before anything is made of them.
#pragma once

#include <cstdint>
#include <span>

#include "model/stop.h"

namespace gapless {

// What is wrong with a pickle, by the name under which Python words it; empty where nothing is.
// `number` is the length, the opcode or the index that breaks the rule.
struct PickleFault {
    const char* rule = "";
    std::uint64_t number = 0;
    // Bytes that are left behind the place.
    std::uint64_t left = 0;
};

struct PickleLimits {
    std::uint64_t containers;
    std::uint64_t scalars;
    std::uint64_t integer_bytes;
};

// Runs the opcodes on the types of values alone. Where nothing is wrong, a loader finds every
// length, mark, memo entry and key as it needs them, and no opcode but those of plain containers.
PickleFault find_pickle_fault(std::span<const std::uint8_t> data, const PickleLimits& limits,
                              Stop& stop);

}  // namespace gapless
