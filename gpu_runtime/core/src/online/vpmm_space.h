// The addresses that VPMM has, in regions side by side.
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

// Holes that touch are one, but for those of two chunks: a device may refuse what lies in both.
class VpmmSpace {
  public:
    VpmmSpace(DeviceMemory& memory, std::size_t page_bytes, std::size_t chunk_bytes)
        : memory_(memory), page_bytes_(page_bytes), chunk_bytes_(chunk_bytes), holes_(&nodes_) {}

    // Reserves another chunk, a hole as a whole. Throws OutOfDeviceMemory.
    void reserve();
    // The smallest hole of at least so many bytes, of equal ones the first; from another chunk
    // where there is none. Throws OutOfDeviceMemory.
    VpmmRegion& hole_for(std::size_t bytes);
    // The first bytes of a hole become a region of a state.
    VpmmRegion& carve(VpmmRegion& hole, std::size_t bytes, VpmmState state);
    // A region that is in no list becomes a hole, or a part of one.
    void make_hole(VpmmRegion& region);
    // The region keeps its first bytes; returns the rest, the same but for its event and lists.
    VpmmRegion& split(VpmmRegion& region, std::size_t bytes);
    // Takes in the region behind, which is in no list.
    void absorb(VpmmRegion& region);
    // Gives back the chunks that are holes as a whole. Throws DeviceCallError; then some stay.
    void release_idle();

    // The pages of a region, by address.
    std::span<Pages> pages_of(const VpmmRegion& region);
    std::span<const Pages> pages_of(const VpmmRegion& region) const;
    const std::map<Address, VpmmChunk>& chunks() const { return chunks_; }
    // Holds the rules of regions and holes; throws std::logic_error.
    void check() const;

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
