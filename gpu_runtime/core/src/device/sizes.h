// Sizes that every allocator knows.
#pragma once

#include <cstddef>

namespace gapless::runtime {

// Every block begins at a multiple of this many bytes, as in PyTorch's own allocator: libraries
// choose kernels by the alignment of their arguments.
constexpr std::size_t kBlockAlignment = 512;

// PyTorch counts requests of at most so many bytes apart, and gives them memory of their own.
constexpr std::size_t kSmallBytes = std::size_t{1} << 20;

// More than any device has: what is asked for above this is refused before it is rounded up.
constexpr std::size_t kMostBytes = std::size_t{1} << 48;

// Where a device makes up addresses, plain memory and ranges begin at a multiple of a page and of
// this: of 2 MiB, as on a GPU.
constexpr std::size_t kMadeMultiple = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace gapless::runtime
