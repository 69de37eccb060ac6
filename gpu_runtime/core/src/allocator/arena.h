// The memory of the arena: it gets frames, keeps them between steps, or loses them.
#pragma once

#include <cstddef>

#include "allocator/bounded_heap.h"

namespace gapless::runtime {

class Arena {
  public:
    explicit Arena(BoundedHeap& heap) : heap_(heap) {}

    // Makes room for places up to an offset. Idle frames of the heap move there. With `is_bounded`,
    // memory above the bound is mapped when a request comes to its place. Throws OutOfDeviceMemory
    // or DeviceCallError.
    void make_room(Lock& lock, std::size_t wanted, bool is_bounded);
    // Gives the first `bytes` bytes their frames back, as far as they are idle elsewhere by now.
    void restore(Lock& lock, std::size_t bytes, bool is_bounded);
    std::size_t bytes() const { return bytes_; }

  private:
    void obtain(Lock& lock, std::size_t wanted, bool is_bounded);

    BoundedHeap& heap_;
    std::size_t bytes_ = 0;
};

}  // namespace gapless::runtime
