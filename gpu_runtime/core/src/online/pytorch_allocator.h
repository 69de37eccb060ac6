// The common part of PyTorch's two kinds of segments: pools, best fit, splitting, merging.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
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
// Rationale. Plans are compared with the allocator that people use. A replay of it has to choose
// exactly the recorded addresses, because sizes alone would hide the cause of fragmentation.
// Approach. This class follows the documented rules. A request is rounded up to a multiple of 512
// bytes, or to a fraction of a power of two. A request of up to 1 MiB goes to the small pool of its
// stream, a larger one to the large pool. The smallest free block that is large enough serves it;
// among blocks of one size, the one with the lowest address. The rest of this block becomes a block
// of its own if it is large enough. A freed block merges with adjacent free blocks. If no block
// fits, the device gives memory. If the device has none, free blocks that may not be split go back
// to it; then the host waits for all streams and all idle memory goes back.
// A private pool, such as that of a captured graph, has a small and a large pool for each stream,
// as the common pool has. Its memory serves no other requests, and goes back only after the pool
// has ended. If a request in a private pool finds no memory, the common pool gives none back.
// Limits. A captured stream keeps its memory. The end of a pool does not wait for its streams.
class PytorchAllocator : public OnlineAllocator {
  public:
    Address allocate(std::size_t bytes, Stream stream) final;
    bool free(Address address) final;
    bool use_on(Address address, Stream stream) final;
    void settle() final;
    void give_back() final;
    void enter_pool(PoolId pool) final;
    void end_pool(PoolId pool) final;

    std::vector<OnlineSegment> segments() const final;
    std::optional<LiveBlock> live_block(Address address) const final;

  protected:
    static constexpr PoolId kCommonPool = 0;

    // Throws std::invalid_argument if the settings break a rule.
    PytorchAllocator(DeviceMemory& memory, const PytorchSettings& settings,
                     OnlineAccount* whole = nullptr);

    // Returns the free block for a request, or null.
    virtual PoolBlock* find(StreamPool& pool, std::size_t bytes) const = 0;
    virtual bool is_split(const PoolBlock& block, std::size_t bytes) const = 0;
    // Gets memory from the device, and returns a free block of at least `bytes`. Throws
    // OutOfDeviceMemory and DeviceCallError; then obtained memory is free.
    virtual PoolBlock* obtain(StreamPool& pool, std::size_t bytes) = 0;
    // Gives back idle memory to make room for a request; returns false if that made no room.
    virtual bool make_room(StreamPool& /*pool*/, std::size_t /*bytes*/) { return false; }
    // Is called before a request to the device.
    virtual void collect_garbage() {}
    // Gives idle memory of some pools back to the device. Throws DeviceCallError.
    virtual void release_idle(const std::set<PoolId>& pools) = 0;

    // Returns the free blocks of streams that are not captured, of small or of large requests in
    // some pools.
    std::vector<PoolBlock*> idle_blocks(std::size_t kind, const std::set<PoolId>& pools) const;
    // Returns true unless a free block is too large for a request.
    bool may_serve(const PoolBlock& block, std::size_t bytes) const;
    // Throws OutOfDeviceMemory if reserved bytes would exceed the limit of the settings.
    void require_allowed(std::size_t bytes) const;

    PoolSegment& add_segment(StreamPool& pool, Address address, std::size_t bytes);
    void drop_segment(PoolSegment& segment);
    // Splits a block, which keeps its first `bytes`; returns the rest, of the same state, in no
    // list.
    PoolBlock* split(PoolBlock& block, std::size_t bytes);
    // Makes an unlisted block free or unmapped, merges it with its neighbours of the same state,
    // and returns the result.
    PoolBlock* put(PoolBlock& block, OnlineState state);
    // Removes a block from its list.
    void take(PoolBlock& block);

    DeviceMemory& memory_;
    const PytorchSettings settings_;
    const std::size_t allowed_bytes_;
    NodePool nodes_;
    // By pool and stream: the blocks for small and for large requests.
    std::map<std::pair<PoolId, Stream>, std::array<StreamPool, 2>> pools_;
    std::map<Address, PoolSegment> segments_;
    // Number of searches in the common pool, for small and for large requests.
    std::array<std::uint64_t, 2> searches_{};

  private:
    StreamPool& pool_of(Stream stream, std::size_t bytes);
    PoolBlock* free_block(StreamPool& pool, std::size_t bytes);
    PoolBlock* new_block();
    BlockList& list_of(const PoolBlock& block) const;
    // Merges the block behind into this one.
    void absorb(PoolBlock& block);
    void come_back(PoolBlock& block);

    std::deque<PoolBlock> blocks_;
    std::vector<PoolBlock*> unused_blocks_;
    AddressTable<PoolBlock> live_;
    PendingBlocks<PoolBlock> pending_;
    PoolId pool_ = kCommonPool;                        // the pool of the next requests
    std::set<PoolId> ended_;                           // pools that may have memory still
    std::array<StreamPool, 2>* last_pools_ = nullptr;  // those of `last_stream_` in `pool_`
    Stream last_stream_ = 0;
};

}  // namespace gapless::runtime
