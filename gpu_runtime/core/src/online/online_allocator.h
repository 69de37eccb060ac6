// The interface of online allocators, which serve each request without knowing later ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "device/device_memory.h"
#include "online/online_account.h"
#include "online/online_segment.h"

namespace gapless::runtime {

using OwnFigures = std::vector<std::pair<const char*, std::size_t>>;

// Note [Online allocators]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. The decorator of PyTorch's allocator, a replay, the tests and the bindings run every
// online allocator; each should consist of its rules only.
// Approach. Calls come from one thread at a time, as calls to a device do; a caller with several
// threads takes a lock. An online allocator makes all its device calls on the device of its
// constructor, where calls are counted, refused or dictated. If use_on() gave a block to other
// streams, free() records an event on each of them, and the block serves again when these events
// are done. allocate() and settle() query the events. So a replay can dictate the completion of a
// recorded free: a stream of the replay uses the block, the ledger finishes that stream at the
// recorded event, and the replay calls settle().
// Every call leaves the allocator consistent, even if the device refused a part of it. Memory that
// a throwing allocate() obtained is free. A block without an event, because the device refused one
// or the stream is gone, is pending until a wait for the device: allocate() waits when memory is
// short, and give_back() always. A block of a captured stream waits for the end of the capture, and
// the memory of such a stream stays.
// Limits. No block moves, and no request waits for a free that the program has yet to request.
class OnlineAllocator {
  public:
    OnlineAllocator(const OnlineAllocator&) = delete;
    OnlineAllocator& operator=(const OnlineAllocator&) = delete;
    // Gives no memory back, because live blocks may outlive the driver.
    virtual ~OnlineAllocator() = default;

    // Returns a block of `bytes` > 0 for work of a stream. Throws OutOfDeviceMemory and
    // DeviceCallError.
    virtual Address allocate(std::size_t bytes, Stream stream) = 0;
    // Returns false if no live block begins at the address. Throws no error of the device.
    virtual bool free(Address address) = 0;
    // Another stream uses a live block until its free; returns false if there is no such block.
    virtual bool use_on(Address address, Stream stream) = 0;
    // Frees the pending blocks whose other streams are done, without waiting.
    virtual void settle() = 0;
    // Waits for all streams and returns idle memory to the device. Throws DeviceCallError; then
    // some memory stays.
    virtual void give_back() = 0;
    // The program begins an iteration, or enters a visit: a module within a phase. Only an
    // allocator with a profile of the program needs to know.
    virtual void begin_iteration() {}
    virtual void enter(std::int64_t /*visit*/) {}
    // Later requests are made in a pool. Only PyTorch's allocators have private pools.
    virtual void enter_pool(PoolId /*pool*/) {}
    // A program needs a private pool no more: its idle memory returns to the device, and the rest
    // with a give_back() after it was freed. Throws DeviceCallError; then some memory stays. An
    // allocator without private pools returns all idle memory.
    virtual void end_pool(PoolId /*pool*/) { give_back(); }

    const OnlineFigures& figures() const { return account_.figures(); }
    void reset_peaks() { account_.reset_peaks(); }
    // Returns what this allocator alone counts, by name; empty for most allocators.
    virtual OwnFigures own_figures() const { return {}; }
    // From now on counts blocks by size in `statistics` too; null stops this.
    void keep(BlockStatistics* statistics) { account_.keep(statistics); }
    // Returns all segments in the order of addresses.
    virtual std::vector<OnlineSegment> segments() const = 0;
    // Returns the live block that begins at an address.
    virtual std::optional<LiveBlock> live_block(Address address) const = 0;
    // Throws std::logic_error if the listed blocks do not add up to the figures. For tests.
    void check() const;

  protected:
    // An allocator within another one counts in the account `whole` too.
    explicit OnlineAllocator(OnlineAccount* whole = nullptr) : account_(whole) {}

    OnlineAccount account_;
};

}  // namespace gapless::runtime
