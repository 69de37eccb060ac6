// GMLake's pools of primitive and stitched blocks, and the operations that change them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <span>
#include <vector>

#include "allocator/node_pool.h"
#include "device/device_memory.h"
#include "device/page_mapper.h"
#include "online/gmlake_block.h"
#include "online/online_account.h"
#include "online/page_stock.h"
#include "online/retired_ranges.h"

namespace gapless::runtime {

// The constants of virtual memory stitching. The paper gives no number for some of them, and only
// an example for others. A user has to find good values by experiment.
struct GmlakeRules {
    // Bytes of a chunk, the unit of physical memory. PyTorch's allocator serves smaller requests.
    std::size_t chunk_bytes = std::size_t{2} << 20;
    // Bytes of the smallest request for which blocks are stitched. The value is the paper's
    // example.
    std::size_t fragmentation_limit_bytes = std::size_t{128} << 20;
    // If true, the limit applies to blocks: smaller ones are neither split nor stitched, but serve
    // a request as a whole.
    bool limits_blocks = false;
    // The most stitched blocks that are kept, and the most bytes of addresses that they have.
    // Blocks in use may exceed both.
    std::size_t most_stitched = 4096;
    std::size_t most_stitched_bytes = std::size_t{4} << 40;

    // Throws std::invalid_argument if a field is invalid.
    void validate(std::size_t page_bytes) const;
};

// All blocks of all streams. No chunk belongs to two primitive blocks. If alloc(), split() or
// stitch() throws, all blocks stay as they were.
class GmlakePools {
  public:
    // Throws std::invalid_argument if a field of `rules` is invalid.
    GmlakePools(DeviceMemory& memory, const GmlakeRules& rules, OnlineAccount& account);

    GmlakePool& pool_of(Stream stream);

    // Returns an inactive block of exactly `bytes`: a primitive one if possible, else a stitched
    // one, else null.
    GmlakeBlock* find_exact(const GmlakePool& pool, std::size_t bytes) const;

    // Makes an inactive primitive block of chunks from the device. alloc(), split() and stitch()
    // throw OutOfDeviceMemory and DeviceCallError.
    GmlakeBlock& alloc(GmlakePool& pool, std::size_t bytes);
    // Splits an inactive primitive block into two, and returns the first, which has `bytes`.
    // `whole` keeps its address, and becomes the stitched block of the two.
    GmlakeBlock& split(GmlakeBlock& whole, std::size_t bytes);
    // Makes a stitched block of two or more inactive primitive blocks.
    GmlakeBlock& stitch(const std::vector<GmlakeBlock*>& parts);

    // Make a block and its parts active, or inactive again.
    void hand_out(GmlakeBlock& block);
    void take_back(GmlakeBlock& block);

    // Releases the addresses of dropped blocks in which streams have finished their work.
    void collect() { retired_.collect(); }
    // Gives inactive primitive blocks back to the device, and drops stitched blocks that are not
    // handed out. Captured streams keep theirs. Throws DeviceCallError; then some blocks stay.
    void release_inactive();

    // Returns the blocks that are handed out, and the primitive ones that are inactive. Together
    // they hold every chunk of a block exactly once.
    std::vector<const GmlakeBlock*> holders() const;
    std::size_t stitched_count() const { return by_use_.size(); }
    std::size_t primitive_count() const { return primitive_count_; }

  private:
    // Maps chunks side by side into a new range of addresses, and returns its address.
    Address map_range(std::span<const Pages> chunks);
    GmlakeBlock& new_block(GmlakePool& pool, Address address, std::size_t bytes);
    GmlakeBlock& add_primitive(GmlakePool& pool, Address address, std::span<const Pages> chunks);
    // Makes `block` the stitched block of `parts`.
    void add_stitched(GmlakeBlock& block, std::vector<GmlakeBlock*> parts);
    // Drops inactive stitched blocks, the least recently used first, until the rules allow one more
    // of `bytes`.
    void make_room(std::size_t bytes);
    void drop_stitched(GmlakeBlock& block);
    void release_pool(GmlakePool& pool);
    void recycle(GmlakeBlock& block);

    DeviceMemory& memory_;
    const GmlakeRules rules_;
    OnlineAccount& account_;
    PageMapper mapper_;
    PageStock stock_;
    RetiredRanges retired_;
    NodePool nodes_;
    std::map<Stream, GmlakePool> pools_;
    GmlakePool* last_pool_ = nullptr;
    std::deque<GmlakeBlock> blocks_;
    std::vector<GmlakeBlock*> unused_blocks_;
    std::list<GmlakeBlock*> by_use_;  // stitched blocks, the least recently used first
    std::uint64_t next_number_ = 1;
    std::size_t primitive_count_ = 0;
    std::size_t stitched_bytes_ = 0;
};

}  // namespace gapless::runtime
