// VPMM's addresses, divided into adjacent regions.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "allocator/node_pool.h"
#include "device/device_memory.h"
#include "online/vpmm_region.h"

namespace gapless::runtime {

// Adjacent holes are merged, but never across two chunks, because a device may refuse to map across
// them.
class VpmmSpace {
  public:
    VpmmSpace(DeviceMemory& memory, std::size_t page_bytes, std::size_t chunk_bytes)
        : memory_(memory), page_bytes_(page_bytes), chunk_bytes_(chunk_bytes), holes_(&nodes_) {}

    // Reserves another chunk, which is one hole. Throws OutOfDeviceMemory.
    void reserve();
    // Returns the smallest hole of at least `bytes`, and the first among equal ones. If there is
    // none, reserves another chunk. Throws OutOfDeviceMemory.
    VpmmRegion& hole_for(std::size_t bytes);
    // Makes the first `bytes` of a hole a fresh region.
    VpmmRegion& carve(VpmmRegion& hole, std::size_t bytes);
    // Makes an unlisted region a hole, or a part of an adjacent hole.
    void make_hole(VpmmRegion& region);
    // Splits a region, which keeps its first `bytes`. Returns the rest, an equal region without an
    // event and in no list.
    VpmmRegion& split(VpmmRegion& region, std::size_t bytes);
    // Merges the region behind, which is in no list, into this one.
    void absorb(VpmmRegion& region);
    // Gives back the chunks that are one hole. Throws DeviceCallError; then some stay.
    void release_idle();

    // Returns the pages of a region in the order of addresses.
    std::span<Pages> pages_of(const VpmmRegion& region);
    const std::map<Address, VpmmChunk>& chunks() const { return chunks_; }

  private:
    VpmmRegion* new_region();
    void list(VpmmRegion& hole);

    DeviceMemory& memory_;
    const std::size_t page_bytes_;
    const std::size_t chunk_bytes_;
    NodePool nodes_;
    VpmmList holes_;
    std::map<Address, VpmmChunk> chunks_;
    std::deque<VpmmRegion> regions_;
    std::vector<VpmmRegion*> unused_regions_;
};

}  // namespace gapless::runtime
