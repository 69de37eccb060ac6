// The requests of a recorded run, made again to an online allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/block_stamps.h"
#include "device/device_memory.h"
#include "device/segment_log.h"
#include "policies/online_allocator.h"
#include "policies/request_log.h"

namespace gapless::runtime {

// A stream of the replay's own that works in a block from its free until that is complete.
struct SideStreams {
    std::function<void(Stream, Address, std::size_t)> begin;
    std::function<void(Stream)> end;
};

// On a ledger that is told when streams are done, a simulated device and replayed streams. On
// another one there is nothing to call: a free is asked for when it is complete.
SideStreams side_streams_of(DeviceMemory& memory);

struct ReplayOutcome {
    std::vector<Address> addresses;       // by the request's number; 0 where it was not reached
    std::vector<std::int64_t> reserved;   // bytes after each row, where they are wanted
    std::vector<std::int64_t> allocated;  // the same
    std::int64_t out_of_memory_row = -1;  // where it ended
    double seconds = 0;                   // in all
    double late_seconds = 0;              // from some row on
};

// What is to be told of a replay beside its figures.
struct ReplayTerms {
    bool has_series = false;    // sums after each row
    std::int64_t late_row = 0;  // from which on time is told apart
};

// What looks on; each may be null.
struct ReplayWitnesses {
    SegmentLog* segments = nullptr;
    BlockStamps* stamps = nullptr;
};

// Holds reserved = active + free after each row; throws std::logic_error. Stops where the device
// has no memory. Calls `pause` now and then, which may throw. Stamped blocks that still live at the
// end are looked at then.
ReplayOutcome replay(const RequestLog& log, OnlineAllocator& allocator, const SideStreams& side,
                     const ReplayWitnesses& witnesses, const ReplayTerms& terms,
                     const std::function<void()>& pause);

}  // namespace gapless::runtime
