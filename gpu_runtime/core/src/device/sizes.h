// Sizes that all allocators share.
#pragma once

#include <cstddef>

namespace gapless::runtime {

// Every block begins at a multiple of this many bytes, as in PyTorch's own allocator, because
// libraries choose kernels by the alignment of their arguments.
constexpr std::size_t kBlockAlignment = 512;

// PyTorch counts requests of at most this many bytes separately, and serves them from memory of
// their own.
constexpr std::size_t kSmallBytes = std::size_t{1} << 20;

// Exceeds the memory of every device. Larger requests are refused before rounding up could
// overflow.
constexpr std::size_t kMostBytes = std::size_t{1} << 48;

// Devices that make up addresses align plain memory and ranges to a page and to this: 2 MiB, as on
// a GPU.
constexpr std::size_t kMadeMultiple = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace gapless::runtime
