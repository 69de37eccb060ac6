// GMLake: an online allocator that serves a request from free blocks, mapped side by side.
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

// Number of requests that ended in each of the paper's states S1 to S5. Requests of less than a
// chunk are counted only if they are out of memory.
struct GmlakeStates {
    std::uint64_t exact = 0;          // S1: took a block of their size
    std::uint64_t single = 0;         // S2: split a larger block
    std::uint64_t whole = 0;          // S2: took a larger block, which `limits_blocks` keeps whole
    std::uint64_t multiple = 0;       // S3: stitched free blocks
    std::uint64_t insufficient = 0;   // S4: needed a new block, alone or stitched to free ones
    std::uint64_t out_of_memory = 0;  // S5
};

// Note [Virtual memory stitching]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A pool that only splits blocks keeps free bytes that serve no request, because they do
// not lie side by side. Virtual memory can show the same pages at several addresses. So free blocks
// that lie apart can serve one request.
// Approach. This is the paper's algorithm. A primitive block owns physical chunks. A stitched block
// maps the chunks of several primitive blocks a second time, side by side. A request takes a free
// block of exactly its size. If there is none, it splits the smallest larger free primitive block.
// If all are smaller, it stitches the largest ones, and splits the last of these if they hold too
// many bytes. If all of them together hold too few bytes, it stitches them with a new block.
// Stitched blocks are kept for later requests of the same size. So a program that repeats its steps
// soon finds a block of the right size for each request.
// The paper leaves the following choices open. Requests are rounded up to whole chunks here.
// Requests of less than a chunk go to PyTorch's caching allocator. Among free blocks of one size, a
// primitive one is taken before a stitched one, and an older one before a newer one. When a block
// is split, its two parts replace it in every stitched block that contains it. Its address range
// becomes the stitched block of the two parts, which needs no device call.
// The fragmentation limit applies to requests. A request below the limit takes a block of its size,
// splits a larger one, or gets a new one. A larger request may stitch blocks of any size. The paper
// applies the limit to blocks: smaller blocks are neither split nor stitched. Then either a small
// request occupies a whole block below the limit, or such a block serves requests of its own size
// only. Both ways, a training loop reserves up to four times its live bytes, which contradicts the
// 5 to 10 percent of fragmentation that the paper measures. The authors' code applies the limit to
// the request, and stitches the largest free blocks of any size. `limits_blocks` selects the
// paper's reading.
// When there are too many stitched blocks, or too many bytes in them, the least recently used ones
// without an active part are dropped. A request is out of memory if the device refuses memory even
// after all idle memory was given back. PyTorch's allocator, into which the authors built GMLake,
// does the same.
// Limits. Each stream has blocks of its own. Primitive blocks never merge; they only become smaller
// until give_back(). So requests below the limit whose sizes keep changing leave pieces that serve
// none of them. In the paper blocks do not merge either. The authors' code differs from the paper:
// it splits in place, as PyTorch does, and merges neighbours. It serves smaller requests with the
// beginning of a stitched block. If the free blocks hold too few bytes, it gets a new block for the
// whole request. It stitches nothing while the device has memory, unless a setting says so. This
// code follows the paper. A captured graph has no pool of its own: give_back() keeps all blocks of
// a captured stream.
class Gmlake final : public OnlineAllocator {
  public:
    // Throws std::invalid_argument if a field of `rules` is invalid.
    Gmlake(DeviceMemory& memory, const GmlakeRules& rules);

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) override;
    bool use_on(Address address, Stream stream) override;
    void settle() override;
    void give_back() override;
    // A stitched block that is handed out is one segment, in place of its parts.
    std::vector<OnlineSegment> segments() const override;
    std::optional<LiveBlock> live_block(Address address) const override;

    const GmlakeStates& states() const { return states_; }
    std::size_t stitched_count() const { return pools_.stitched_count(); }
    std::size_t primitive_count() const { return pools_.primitive_count(); }

  private:
    Address serve(std::size_t requested, Stream stream);
    // Finds or makes an inactive block for a request of `bytes`, which are whole chunks.
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
