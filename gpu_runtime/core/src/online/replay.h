// The requests of a recorded run, made again to an allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "allocator/planned_allocator.h"
#include "device/block_stamps.h"
#include "device/device_memory.h"
#include "device/segment_log.h"
#include "online/online_allocator.h"
#include "online/request_log.h"

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
};

// What looks on; each may be null.
struct ReplayWitnesses {
    SegmentLog* segments = nullptr;
    BlockStamps* stamps = nullptr;
};

// The rows one behind the other, so that others may have their turn between two of them. An
// Allocator is an OnlineAllocator or a PlannedAllocator; with the class known no call is virtual
// that need not be.
template <class Allocator>
class Replay {
  public:
    Replay(const RequestLog& log, Allocator& allocator, SideStreams side,
           const ReplayWitnesses& witnesses, bool has_series);

    // Makes the rows that were not made yet, up to one; none where the device has had no memory.
    // Holds after each that requested bytes are at most those allocated and these at most those
    // reserved; throws std::logic_error. Calls `pause` now and then, which may throw. Throws
    // std::invalid_argument for a row behind the last one, and DeviceCallError.
    void run_to(std::size_t behind, const std::function<void()>& pause);
    // Looks at stamped blocks that still live. No row is made any more. Calls `pause` as well.
    ReplayOutcome end(const std::function<void()>& pause = {});

    double seconds() const { return outcome_.seconds; }
    std::int64_t out_of_memory_row() const { return outcome_.out_of_memory_row; }

  private:
    void make_row();
    void take_row(const RequestLog::Row& row);
    void allocate(std::uint32_t block);
    void free_now(std::uint32_t block);
    void begin_use(std::uint32_t block);
    void end_use(std::uint32_t block);
    void free(std::uint32_t block);

    // Numbers of side streams: as few as possible, each for one block at a time.
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
    std::size_t row_ = 0;        // to be made next
    std::size_t requested_ = 0;  // bytes of blocks that live
    SideNumbers numbers_;
    std::vector<Stream> side_stream_;  // by block
};

extern template class Replay<OnlineAllocator>;
extern template class Replay<PlannedAllocator>;

}  // namespace gapless::runtime
