// Pauses and resumes whole heaps: see Note [Paused memory].
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "allocator/bounded_heap.h"

namespace gapless::runtime {

using Heaps = std::vector<BoundedHeap*>;

// Gives the memory of heaps back to the device; with `keeps`, the contents are copied to the host
// first. Waits for the device. Returns the number of bytes. Throws DeviceCallError; the memory that
// was given back by then stays paused. Throws OutOfHostMemory; then nothing is paused.
std::size_t pause(Lock& lock, const Heaps& heaps, bool keeps);
// Maps paused memory again at the same addresses. Returns the number of bytes. Throws
// OutOfDeviceMemory and DeviceCallError; memory that is still paused can be tried again.
std::size_t resume(Lock& lock, const Heaps& heaps);
// Address and requested bytes of the blocks in use whose memory is paused.
std::vector<std::pair<Address, std::size_t>> paused_blocks(const Heaps& heaps);
std::size_t reserved_bytes(const Heaps& heaps);

}  // namespace gapless::runtime
