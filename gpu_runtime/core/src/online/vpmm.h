// VPMM: an online allocator that maps free pages side by side where a request needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/address_table.h"
#include "allocator/node_pool.h"
#include "device/device_memory.h"
#include "device/page_mapper.h"
#include "online/online_allocator.h"
#include "online/page_stock.h"
#include "online/pending_blocks.h"
#include "online/pytorch_caching.h"
#include "online/vpmm_region.h"
#include "online/vpmm_space.h"

namespace gapless::runtime {

// The paper's VPMM_PAGE_SIZE, VPMM_PAGES and VPMM_VA_SIZE. A chunk is a range of addresses that is
// reserved at once.
struct VpmmSettings {
    std::size_t page_bytes = std::size_t{2} << 20;
    std::size_t pages = 0;  // created and mapped before the first request
    std::size_t chunk_bytes = std::size_t{8} << 40;

    // Returns these settings, or throws std::invalid_argument if a field is invalid.
    const VpmmSettings& validated(const DeviceMemory& memory) const;
};

// Note [VPMM's rules]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. Plans are compared with an allocator that defragments: free pages at any addresses can
// serve any request of whole pages, and the host waits for no stream until memory runs out.
// Approach. A *hole* is a region without memory. A *zombie* is a region whose pages have moved,
// while earlier work may still use them at its addresses. A region's event tells when the work of
// its stream is done. Each request of a page or more goes through these phases:
// - Phase 0. Zombies whose events are done become holes.
// - Phase 1, without waiting. The request gets the smallest free region of its stream that is large
//   enough. If there is none, it gets the smallest one of another stream whose event is done.
// - Phase 2. The request gets the smallest hole that is large enough. Pages of free regions are
//   mapped into it, first those of its stream, then those of others, for whose events the stream is
//   made to wait. They stay mapped where they were, as zombies. New pages supply the rest.
// The paper leaves some choices open. Of equal free regions the last one by address serves, as in
// the paper's case B when ten pages are left. The stream's own regions give their pages in the
// order in which they were freed, like those of other streams. Free regions of one stream that
// touch are merged, since the later event covers all earlier work of the stream. Pages of the start
// belong to stream 0. In the hole, new pages come before moved ones. Moved pages go into the hole
// only: so say the paper's phases, while its cases draw them at the end of the active memory.
// A freed region that another stream used waits in PendingBlocks, and is free afterwards. If the
// device has no page left, the host waits for these regions, and idle memory of small requests goes
// back to the device.
// A region has no event if its stream is captured or gone, or if the device refused one. Such a
// region serves its own stream where it lies. Other uses need an event, which phase 2 tries to
// record, or a wait for the device. A captured stream waits for no event: it gets its own pages,
// pages whose events are done, and new ones.
// Limits. A request of more than a chunk is refused. Pages are kept until give_back(). Two mappings
// of a page are coherent between kernels, not within one. So kernels that use one mapping run after
// those that used the other.
class Vpmm final : public OnlineAllocator {
  public:
    // Throws std::invalid_argument if a field of `settings` is invalid, OutOfDeviceMemory, and
    // DeviceCallError.
    Vpmm(DeviceMemory& memory, const VpmmSettings& settings);

    Address allocate(std::size_t requested, Stream stream) override;
    bool free(Address address) override;
    bool use_on(Address address, Stream stream) override;
    void settle() override;
    void give_back() override;

    // The chunks of addresses, the holes and the zombies, all now but for the peak since the start.
    OwnFigures own_figures() const override;
    std::vector<OnlineSegment> segments() const override;
    std::optional<LiveBlock> live_block(Address address) const override;

    // Returns all regions in the order of addresses.
    std::vector<VpmmView> regions() const;

  private:
    // The first `bytes` of a free region, whose pages move to a request.
    struct Harvest {
        VpmmRegion* region;
        std::size_t bytes;
    };

    void unmap_zombies();
    void bury(VpmmRegion& zombie);
    VpmmRegion& obtain(std::size_t bytes, Stream stream);
    VpmmRegion* find(std::size_t bytes, Stream stream);
    VpmmRegion& gather(std::size_t bytes, Stream stream);
    std::vector<VpmmRegion*> movable(Stream stream);
    void leave(const Harvest& part);
    void come_back(VpmmRegion& region);

    // Frees a region: merges it with free neighbours of its stream, and lists the result.
    void put(VpmmRegion& region);
    void list(VpmmRegion& region);
    void unlist(VpmmRegion& region);
    // Update the number of segments after a region has got or lost its memory. A segment is a
    // maximal stretch of addresses with memory.
    void appear(const VpmmRegion& region);
    void disappear(const VpmmRegion& region);

    void mark(VpmmRegion& region);
    bool is_marked(VpmmRegion& region);
    void await_unmarked();
    bool is_done(VpmmRegion& region);
    void forget_event(VpmmRegion& region);
    void keep_later_event(VpmmRegion& region);

    DeviceMemory& memory_;
    const VpmmSettings settings_;
    PytorchCaching small_;  // for requests of less than a page
    PageMapper mapper_;
    PageStock stock_;
    NodePool nodes_;
    VpmmSpace space_;
    std::map<Stream, VpmmList> free_;
    AddressTable<VpmmRegion> live_;
    PendingBlocks<VpmmRegion> pending_;
    // Keyed by stream and region id; ids of one stream ascend in the order of its events.
    std::map<std::pair<Stream, std::uint64_t>, VpmmRegion*> zombies_;
    std::size_t zombie_bytes_ = 0, zombie_bytes_peak_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace gapless::runtime
