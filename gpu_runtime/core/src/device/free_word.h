// The word with which free memory is stamped.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gapless::runtime {

constexpr std::size_t kWordBytes = 8;

// Note [Words of free memory]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A word depends only on its address. So it does not matter which blocks the bytes belonged to when
// they were stamped and when they are compared. A word differs from its neighbours, so copies and
// constants are noticed. Read as a float of 8, 4 or 2 bytes, and as a float of 1 byte in every
// other place, a word is NaN: a program that reads free memory spoils its result.
constexpr std::uint64_t free_word(std::uint64_t address) {
    std::uint64_t bits = address / kWordBytes * 0x9E3779B97F4A7C15u;
    bits ^= bits >> 32;
    bits *= 0xD6E8FEB86659FD93u;
    return 0x7FF17F817F817F81u | (bits >> 4 & 0x000F007F007F007Fu);
}

}  // namespace gapless::runtime
