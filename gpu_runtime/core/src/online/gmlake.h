// GMLake: blocks that are apart serve one request by a range of addresses of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/address_table.h"
#include "device/device_memory.h"
#include "online/gmlake_block.h"
#include "online/gmlake_pools.h"
#include "online/online_allocator.h"
#include "online/pending_blocks.h"
#include "online/pytorch_caching.h"

namespace gapless::runtime {

// How often a request found what it found.
struct GmlakeStates {
    std::uint64_t exact = 0;          // S1
    std::uint64_t single = 0;         // S2: a larger block, which is split
    std::uint64_t whole = 0;          // S2: one that may not be split
    std::uint64_t multiple = 0;       // S3
    std::uint64_t insufficient = 0;   // S4
    std::uint64_t out_of_memory = 0;  // S5
};

// Note [Virtual memory stitching]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A pool that only splits keeps bytes that are free and too far apart for any request.
// Pages may appear at several addresses, so that no bytes are too far apart.
// Approach. The paper's: primitive blocks own chunks, stitched ones show the chunks of several
// once more. A request takes a block of exactly its size; or else it splits the smallest larger
// primitive block; or stitches the largest ones, of which the last is split where they are more
// than enough; or, where all together are too few, stitches them with a new one. What was stitched
// is kept for the next request of its size, so that steps that are alike soon find all they need.
// Where the paper is silent, these are the readings. Requests are rounded up to chunks, and those
// for less than a chunk are PyTorch's allocator's. Of equal blocks a primitive one is taken before
// a stitched one, and the oldest of its kind. A block that is split is replaced by both parts in
// the stitched blocks that it is in, and its addresses become those of the stitched block of the
// two: no call of the device is needed for that one.
// The limit is for requests: those below it take a block of their size, split a larger one, or get
// a new one, and those from it on are stitched of blocks however small. The paper has it for
// blocks: smaller ones would be neither split nor stitched. Then either a small request holds a
// whole block below the limit or what is below it serves its own size only; either way a training
// loop reserves up to four times what lives, which the paper's 5 to 10 percent of fragmentation
// rule out. Its authors' code asks the request, and stitches the largest free blocks of any size.
// `limits_blocks` has the other reading.
// Stitched blocks above either bound leave, the least recently used first, if none of their
// parts is active. A request is out of memory when the device has none though everything idle was
// given back to it, as in the allocator that the paper's is built into.
// Limits. Blocks of streams are apart, and primitive ones never grow together again: only
// give_back() ends their being cut into smaller ones, so that requests below the limit whose sizes
// keep changing leave pieces that none of them can have. The paper's blocks do not grow together
// either, while the authors' code splits in place, as PyTorch does, and joins neighbours; and it
// gives the beginning of a stitched block to smaller requests, and gets a whole new block where
// free ones are too few, and stitches nothing while the device has memory, unless it is told to:
// here the paper is followed. There are no pools of a graph's own: a
// captured stream has what it had, which stays.
class Gmlake final : public OnlineAllocator {
  public:
    // Throws std::invalid_argument where the rules break one of their own.
    Gmlake(DeviceMemory& memory, const GmlakeRules& rules);

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) override;
    bool use_on(Address address, Stream stream) override;
    void settle() override;
    void give_back() override;
    // Stitched blocks are listed where they are handed out, instead of their parts.
    std::vector<OnlineSegment> segments() const override;
    std::optional<LiveBlock> live_block(Address address) const override;
    void check() const override;

    const GmlakeStates& states() const { return states_; }
    std::size_t stitched_count() const { return pools_.stitched_count(); }
    std::size_t primitive_count() const { return pools_.primitive_count(); }

  private:
    Address serve(std::size_t requested, Stream stream);
    // An inactive block for a request.
    GmlakeBlock& best_fit(GmlakePool& pool, std::size_t bytes);
    GmlakeBlock* find_larger(const GmlakePool& pool, std::size_t bytes) const;
    GmlakeBlock& gather(GmlakePool& pool, std::size_t bytes);
    void come_back(GmlakeBlock& block);

    const GmlakeRules rules_;
    PytorchCaching small_;
    GmlakePools pools_;
    AddressTable<GmlakeBlock> live_;
    PendingBlocks<GmlakeBlock> pending_;
    GmlakeStates states_;
};

}  // namespace gapless::runtime
