// What the decorator of PyTorch's allocator is given: the allocators that are installed, as a
// table.
#pragma once

#include "allocator/serving_allocator.h"
#include "serving.h"

namespace gapless::runtime {

// Serves a device's requests by an allocator from now on. It must live as long as the process:
// tensors are freed until its very end. Throws std::out_of_range, std::logic_error where the device
// has one.
void install(int device, ServingAllocator& allocator);

// One for all devices, the same at each call.
const GaplessServing& serving_table();

}  // namespace gapless::runtime
