// Replays the requests of a recorded run to an allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "allocator/planned_allocator.h"
#include "device/block_stamps.h"
#include "device/device_memory.h"
#include "device/segment_log.h"
#include "online/online_allocator.h"
#include "online/request_log.h"

namespace gapless::runtime {

// Note [Progress in a replay]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A recording tells when an allocation or a free was requested, not how far the device
// had come. If no stream ever advanced, no event would be done unless the host waited for it.
// Approach. Every kRowsBehind rows, each stream that requested a block advances to the last row,
// but not beyond a wait for a stream that is not done. Streams that use a freed block are done when
// the recording says that this free is complete.
// Limits. The host of a real run is ahead of the device by other numbers of requests.

// Functions for the streams of a device. `begin` and `end` are of a side stream: a stream of the
// replay that uses a block from its requested free to its completed free.
struct SideStreams {
    std::function<void(Stream, Address, std::size_t)> begin;
    std::function<void(Stream)> end;
    std::function<void(Stream)> advance;
};

// Returns the functions of a device whose streams a replay can finish: a ledger, a simulated device
// or replayed streams. For another device they are empty: the replay frees a block when its
// recorded free completed.
SideStreams side_streams_of(DeviceMemory& memory);

struct ReplayOutcome {
    std::vector<Address> addresses;       // of each request; 0 if it was not made
    std::vector<std::int64_t> reserved;   // bytes after each row; empty unless a series is wanted
    std::vector<std::int64_t> allocated;  // the same
    std::int64_t out_of_memory_row = -1;  // the row at which the replay ended; -1 for none
    double seconds = 0;                   // in all
};

// Layers that observe a replay; each may be null.
struct ReplayWitnesses {
    SegmentLog* segments = nullptr;
    BlockStamps* stamps = nullptr;
};

// Replays the rows in order; the caller may pause between any two. `Allocator` is an
// OnlineAllocator or a PlannedAllocator. It is a template parameter to avoid virtual calls.
template <class Allocator>
class Replay {
  public:
    Replay(const RequestLog& log, Allocator& allocator, SideStreams side,
           const ReplayWitnesses& witnesses, bool has_series);

    // Replays the remaining rows before `behind`; none if the device was out of memory before.
    // After each row, throws std::logic_error unless requested <= allocated <= reserved bytes.
    // Calls `pause` regularly, which may throw. Throws std::invalid_argument if `behind` exceeds
    // the number of rows, and DeviceCallError.
    void run_to(std::size_t behind, const std::function<void()>& pause);
    // Checks the stamped blocks that still live, and ends the replay. Calls `pause` as well.
    ReplayOutcome end(const std::function<void()>& pause = {});

    double seconds() const { return outcome_.seconds; }
    std::int64_t out_of_memory_row() const { return outcome_.out_of_memory_row; }

  private:
    void make_row();
    void make_progress();
    void take_row(const RequestLog::Row& row);
    void allocate(std::uint32_t block);
    // The pool of the current row, which has been counted already.
    PoolId pool_of_row() const;
    void free_now(std::uint32_t block);
    void begin_use(std::uint32_t block);
    void end_use(std::uint32_t block);
    void free(std::uint32_t block);

    // Gives numbers to side streams: as few as possible, each for one block at a time.
    class SideNumbers {
      public:
        Stream next();
        void give(Stream stream) { unused_.push_back(stream); }

      private:
        Stream made_ = 0;
        std::vector<Stream> unused_;
    };

    const RequestLog& log_;
    Allocator& allocator_;
    const SideStreams side_;
    const ReplayWitnesses witnesses_;
    const bool has_series_;
    ReplayOutcome outcome_;
    std::size_t row_ = 0;        // the next row
    std::size_t requested_ = 0;  // requested bytes of live blocks
    SideNumbers numbers_;
    std::set<Stream> owners_;          // streams that requested a block
    std::vector<Stream> side_stream_;  // of each block
};

extern template class Replay<OnlineAllocator>;
extern template class Replay<PlannedAllocator>;

}  // namespace gapless::runtime
