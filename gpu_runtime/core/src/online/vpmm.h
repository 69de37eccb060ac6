// A pool of pages that move to where a request needs them side by side.
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

// VPMM_PAGE_SIZE, VPMM_PAGES and VPMM_VA_SIZE of the paper.
struct VpmmSettings {
    std::size_t page_bytes = std::size_t{2} << 20;
    std::size_t pages = 0;  // that are made and mapped before the first request
    std::size_t chunk_bytes = std::size_t{8} << 40;

    // Itself; throws std::invalid_argument where a field breaks a rule.
    const VpmmSettings& validated(const DeviceMemory& memory) const;
};

// Note [VPMM's rules]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. A plan is judged against an allocator that defragments: free memory anywhere serves
// any request of whole pages, and no stream is waited for on the host.
// Approach. Phase 0: zombies whose work is seen to be done become holes. Phase 1, without waiting:
// the smallest free region of the stream, else the smallest one of another stream whose event is
// done. Phase 2: the smallest hole; pages for what all free regions are short of; the rest from
// free regions, those of the stream first, then of others, where the stream is made to wait. Their
// pages are mapped into the hole beside where they were, and what they leave behind is a zombie.
// Where the paper leaves a choice: of equal free regions the last one serves, as its case B has it
// for ten pages left; the stream's own regions give their pages in the order in which they were
// freed, as the other streams' do; a region is one with those of its stream beside it, for the
// latest event speaks for all that the stream was given before. The pages of the start belong to
// stream 0. New pages come before the others in the hole, and what moves lies in the hole alone:
// the paper's phases say so, its cases draw it at the end of what is active.
// A region that another stream used waits as PendingBlocks has it, and is free then. Where the
// device has no page left, those are waited for, and idle memory of small requests goes back.
// A region without an event, because its stream is captured or gone or the device refused, serves
// its own stream where it is, until phase 2 can record one or the device was waited for. A stream
// that is captured waits for nothing: it gets its own pages, those that are done, and new ones.
// Limits. A request of more than a chunk is refused. Pages are kept until give_back(). Two mappings
// of a page are two names of one memory between kernels, not within one: those who use the one are
// behind those who used the other.
class Vpmm final : public OnlineAllocator {
  public:
    // Throws std::invalid_argument where the settings break a rule, OutOfDeviceMemory,
    // DeviceCallError.
    Vpmm(DeviceMemory& memory, const VpmmSettings& settings);

    Address allocate(std::size_t requested, Stream stream) override;
    bool free(Address address) override;
    bool use_on(Address address, Stream stream) override;
    void settle() override;
    void give_back() override;

    std::vector<OnlineSegment> segments() const override;
    std::optional<LiveBlock> live_block(Address address) const override;
    void check() const override;

    // All regions, by address.
    std::vector<VpmmView> regions() const;
    // From now on remembers, of a request in phase 2, the regions after each of its steps.
    void keep_stages() { keeps_stages_ = true; }
    // Those of the last request.
    const std::vector<std::vector<VpmmView>>& stages() const { return stages_; }

  private:
    // A part of a free region that a request gets: its first bytes.
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

    // Into its list, as one with its neighbours.
    void put(VpmmRegion& region);
    void list(VpmmRegion& region);
    void unlist(VpmmRegion& region);
    // Memory is behind a region, or not any more: stretches of memory join or part.
    void appear(const VpmmRegion& region);
    void disappear(const VpmmRegion& region);

    void mark(VpmmRegion& region);
    bool is_marked(VpmmRegion& region);
    void await_unmarked();
    bool is_done(VpmmRegion& region);
    void forget_event(VpmmRegion& region);
    void keep_later_event(VpmmRegion& region);

    void keep_stage();
    void check_pages() const;
    void check_sums() const;

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
    // By stream, in the order of their events.
    std::map<std::pair<Stream, std::uint64_t>, VpmmRegion*> zombies_;
    std::uint64_t last_id_ = 0;
    bool keeps_stages_ = false;
    std::vector<std::vector<VpmmView>> stages_;
};

}  // namespace gapless::runtime
