// The table of functions through which PyTorch's decorated allocator calls the installed
// allocators.
#pragma once

#include "allocator/serving_allocator.h"
#include "serving.h"

namespace gapless::runtime {

// Installs an allocator for a device. The allocator must live until the process ends, because
// tensors are freed until then. Throws std::out_of_range for a device number out of range, and
// std::logic_error if the device already has an allocator.
void install(int device, ServingAllocator& allocator);

// Returns the one table for all devices; the same at each call.
const GaplessServing& serving_table();

}  // namespace gapless::runtime
