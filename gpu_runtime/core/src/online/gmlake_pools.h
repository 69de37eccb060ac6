// The pools of primitive and of stitched blocks, and what changes them.
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

// The constants of virtual memory stitching.
// Where the paper gives no number, or only an example, a user has to try.
struct GmlakeRules {
    // Physical memory comes in chunks; requests for less are small.
    std::size_t chunk_bytes = std::size_t{2} << 20;
    // Nothing is stitched for smaller requests: the paper's example.
    std::size_t fragmentation_limit_bytes = std::size_t{128} << 20;
    // The other reading of it: smaller blocks are neither split nor stitched, but serve as a whole.
    bool limits_blocks = false;
    // Stitched blocks that are kept, and bytes of their addresses.
    std::size_t most_stitched = 4096;
    std::size_t most_stitched_bytes = std::size_t{4} << 40;

    // Throws std::invalid_argument where a field breaks a rule.
    void validate(std::size_t page_bytes) const;
};

// Each chunk belongs to one primitive block. What throws leaves the blocks as they were, but for
// stitched ones that made room.
class GmlakePools {
  public:
    // Throws std::invalid_argument where the rules break one of their own.
    GmlakePools(DeviceMemory& memory, const GmlakeRules& rules, OnlineAccount& account);

    GmlakePool& pool_of(Stream stream);

    // An inactive block of exactly so many bytes, primitive or else stitched; null for none.
    GmlakeBlock* find_exact(const GmlakePool& pool, std::size_t bytes) const;

    // An inactive primitive block with memory of the device. Throws OutOfDeviceMemory,
    // DeviceCallError, as those below.
    GmlakeBlock& alloc(GmlakePool& pool, std::size_t bytes);
    // Two blocks in place of an inactive primitive one, which becomes the stitched one of both, at
    // its address. Returns the first, of so many bytes.
    GmlakeBlock& split(GmlakeBlock& whole, std::size_t bytes);
    // A stitched block of at least two inactive primitive ones.
    GmlakeBlock& stitch(const std::vector<GmlakeBlock*>& parts);

    // A block that nobody has is somebody's, or nobody's again.
    void hand_out(GmlakeBlock& block);
    void take_back(GmlakeBlock& block);

    // Lets addresses go that a stream was at work in.
    void collect() { retired_.collect(); }
    // Gives what is inactive to the device, and lets stitched blocks go that are not handed out,
    // but for streams that are captured. Throws DeviceCallError; then some stays.
    void release_inactive();

    // Every block that is handed out or inactive and primitive: those that share no memory.
    std::vector<const GmlakeBlock*> holders() const;
    std::size_t stitched_count() const { return by_use_.size(); }
    std::size_t primitive_count() const { return primitive_count_; }
    // Of chunks that no block has and the device did not take.
    std::size_t kept_bytes() const { return stock_.kept_bytes(); }

    // Throws std::logic_error.
    void check() const;

  private:
    // Chunks side by side at addresses of their own.
    Address map_range(std::span<const Pages> chunks);
    GmlakeBlock& new_block(GmlakePool& pool, Address address, std::size_t bytes);
    GmlakeBlock& add_primitive(GmlakePool& pool, Address address, std::span<const Pages> chunks);
    // A block becomes the stitched one of its parts.
    void add_stitched(GmlakeBlock& block, std::vector<GmlakeBlock*> parts);
    // Lets the least recently used stitched blocks go that are inactive, where one more would be
    // too many.
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
