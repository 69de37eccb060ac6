// The interface of online allocators: they serve each request when it comes, and know none to come.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "device/device_memory.h"
#include "online/online_account.h"
#include "online/online_segment.h"

namespace gapless::runtime {

// Note [Online allocators]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. The decorator of PyTorch's allocator, a replay, the tests and the bindings run every
// online allocator; each should consist of its rules only.
// Approach. Calls come from one thread at a time, as those to a device do: who has several threads
// takes a lock. It makes all its device calls on the device it was given, so that calls
// are counted, refused or dictated there. A block that use_on() told of is handed out again when
// the events that free() recorded on those streams are done; allocate() looks, and settle() looks
// without a request. So a replay dictates when a recorded free completed: it lets a stream of its
// own use the block, has the ledger finish that stream at the recorded event, and calls settle().
// Every call leaves the allocator as consistent as it was, also where the device refused a part of
// it: what a throwing allocate() had obtained is free, and a block whose event could not be
// recorded is pending until the device was waited for, by allocate() when memory is short or by
// give_back(). So is one that a stream used which is gone; one of a stream that is captured waits
// for the end of the capture, and such a stream's memory stays.
// Limits. Nothing moves, and no request waits for a free that is still to be asked for.
class OnlineAllocator {
  public:
    OnlineAllocator(const OnlineAllocator&) = delete;
    OnlineAllocator& operator=(const OnlineAllocator&) = delete;
    // Gives nothing back: what lives here may outlive the driver.
    virtual ~OnlineAllocator() = default;

    // A block of `bytes` > 0 for work of a stream. Throws OutOfDeviceMemory, DeviceCallError.
    virtual Address allocate(std::size_t bytes, Stream stream) = 0;
    // False where no live block begins at the address. Throws nothing that the device refused.
    virtual bool free(Address address) = 0;
    // Another stream works with a live block, until the block is freed; false where there is none.
    virtual bool use_on(Address address, Stream stream) = 0;
    // Frees the pending blocks whose other streams are seen to be done.
    virtual void settle() = 0;
    // Returns to the device what no block needs, once all streams are done. Throws DeviceCallError;
    // then some stays.
    virtual void give_back() = 0;

    const OnlineFigures& figures() const { return account_.figures(); }
    void reset_peaks() { account_.reset_peaks(); }
    // Counts blocks by size as well from now on; null for nowhere.
    void keep(BlockStatistics* statistics) { account_.keep(statistics); }
    // By address.
    virtual std::vector<OnlineSegment> segments() const = 0;
    // The live block that begins at an address.
    virtual std::optional<LiveBlock> live_block(Address address) const = 0;
    // Holds every rule of the structure against itself; throws std::logic_error. For tests.
    virtual void check() const = 0;

  protected:
    // Within another allocator it counts in that one's account too.
    explicit OnlineAllocator(OnlineAccount* whole = nullptr) : account_(whole) {}

    OnlineAccount account_;
};

}  // namespace gapless::runtime
