// What PyTorch's two ways to get memory have in common: pools, best fit, splitting, merging.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "allocator/address_table.h"
#include "allocator/node_pool.h"
#include "device/device_memory.h"
#include "online/online_allocator.h"
#include "online/pending_blocks.h"
#include "online/pool_block.h"
#include "online/pytorch_settings.h"

namespace gapless::runtime {

// Note [PyTorch's rules]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan is judged against the allocator that people have. Replayed, it has to choose
// the very addresses that were recorded: sizes alone would hide where fragmentation comes from.
// Approach. The documented rules. A request is rounded up to 512 bytes, or to a part of a power of
// two. Up to 1 MiB it is served by its stream's small pool, else by the large one. The smallest
// free block that is large enough serves it, of equal ones that with the lowest address; what is
// left becomes a block of its own where it is large enough. A freed block becomes one with the free
// blocks beside it. Where nothing fits, memory comes from the device; where that has none, from
// free blocks that may not be split, then from all that is idle, when everything is waited for.
// Limits. No pools of a graph's own: a captured stream has what it had, which stays.
class PytorchAllocator : public OnlineAllocator {
  public:
    Address allocate(std::size_t bytes, Stream stream) final;
    bool free(Address address) final;
    bool use_on(Address address, Stream stream) final;
    void settle() final;
    void give_back() final;

    std::vector<OnlineSegment> segments() const final;
    std::optional<LiveBlock> live_block(Address address) const final;
    void check() const final;

  protected:
    // Throws std::invalid_argument where the settings break a rule.
    PytorchAllocator(DeviceMemory& memory, const PytorchSettings& settings,
                     OnlineAccount* whole = nullptr);

    // The free block for a request, or null.
    virtual PoolBlock* find(StreamPool& pool, std::size_t bytes) const = 0;
    virtual bool is_split(const PoolBlock& block, std::size_t bytes) const = 0;
    // Gets memory from the device, and returns a free block of at least so many bytes. Throws
    // OutOfDeviceMemory, DeviceCallError; then what was obtained is free.
    virtual PoolBlock* obtain(StreamPool& pool, std::size_t bytes) = 0;
    // Gives to the device what may help a request; false where nothing does.
    virtual bool make_room(StreamPool& /*pool*/, std::size_t /*bytes*/) { return false; }
    // Before the device is asked for memory.
    virtual void collect_garbage() {}
    // Gives to the device what is idle. Throws DeviceCallError.
    virtual void release_idle() = 0;
    virtual void check_segment(const PoolSegment& segment) const = 0;

    // The free blocks of streams that are not captured, the small ones or the large ones.
    std::vector<PoolBlock*> idle_blocks(std::size_t kind) const;
    // Whether a free block is not too large for a request.
    bool may_serve(const PoolBlock& block, std::size_t bytes) const;
    // Throws OutOfDeviceMemory where more than the settings allow would be used.
    void require_allowed(std::size_t bytes) const;

    PoolSegment& add_segment(StreamPool& pool, Address address, std::size_t bytes);
    void drop_segment(PoolSegment& segment);
    // The block keeps its first bytes; returns the rest, of the same state, in no list.
    PoolBlock* split(PoolBlock& block, std::size_t bytes);
    // A block that is in no list becomes free or unmapped, and one with its neighbours that are the
    // same; returns that.
    PoolBlock* put(PoolBlock& block, OnlineState state);
    // Out of its list.
    void take(PoolBlock& block);

    DeviceMemory& memory_;
    const PytorchSettings settings_;
    const std::size_t allowed_bytes_;
    NodePool nodes_;
    // By stream, the small pool and the large one.
    std::map<Stream, std::array<StreamPool, 2>> pools_;
    std::map<Address, PoolSegment> segments_;
    std::array<std::uint64_t, 2> searches_{};  // in small pools and in large ones

  private:
    StreamPool& pool_of(Stream stream, std::size_t bytes);
    PoolBlock* free_block(StreamPool& pool, std::size_t bytes);
    PoolBlock* new_block();
    BlockList& list_of(const PoolBlock& block) const;
    // Takes in the block behind.
    void absorb(PoolBlock& block);
    void come_back(PoolBlock& block);

    std::deque<PoolBlock> blocks_;
    std::vector<PoolBlock*> unused_blocks_;
    AddressTable<PoolBlock> live_;
    PendingBlocks<PoolBlock> pending_;
    std::array<StreamPool, 2>* last_pools_ = nullptr;  // of `last_stream_`
    Stream last_stream_ = 0;
};

}  // namespace gapless::runtime
