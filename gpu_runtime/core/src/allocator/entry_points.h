// The functions that PyTorch calls by address.
#pragma once

#include "allocator/planned_allocator.h"

namespace gapless::runtime {

constexpr int kMaxDevices = 64;

// Serves a device's requests by an allocator from now on. It must live as long as the process:
// tensors are freed until its very end.
void install(int device, PlannedAllocator& allocator);

}  // namespace gapless::runtime
