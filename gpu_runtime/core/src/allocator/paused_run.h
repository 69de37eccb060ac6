// Memory whose frames went back to the device while its blocks stay in use.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "allocator/block.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Adjacent blocks that were mapped throughout, and whose ends are ends of frames.
struct PausedRun {
    Block* first;
    Address end;
    std::vector<Frame> frames;            // as they were, by address
    std::shared_ptr<const Address> copy;  // on the host; null if the contents are not kept
    Address kept = 0;                     // host address of the contents
};
using PausedRuns = std::map<Address, PausedRun>;  // by address of the first byte

}  // namespace gapless::runtime
