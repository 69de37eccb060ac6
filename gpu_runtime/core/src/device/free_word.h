// What a word of free memory holds where writes to it are looked for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

constexpr std::size_t kWordBytes = 8;

// Note [Words of free memory]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A word follows from its address alone, so that it does not matter which blocks the bytes were in
// when they were filled, and in which they are looked at. It differs from its neighbours, so that a
// copy or a constant is seen. As a float of 8, 4 or 2 bytes, and of 1 byte in every other place, it
// is not a number: who reads free memory spoils his result.
constexpr std::uint64_t free_word(std::uint64_t address) {
    std::uint64_t bits = address / kWordBytes * 0x9E3779B97F4A7C15u;
    bits ^= bits >> 32;
    bits *= 0xD6E8FEB86659FD93u;
    return 0x7FF17F817F817F81u | (bits >> 4 & 0x000F007F007F007Fu);
}

}  // namespace gapless::runtime
