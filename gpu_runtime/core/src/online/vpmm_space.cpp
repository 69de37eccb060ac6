#include "online/vpmm_space.h"

#include <utility>

namespace gapless::runtime {

namespace {

bool is_hole(const VpmmRegion* region) {
    return region != nullptr && region->state == VpmmState::hole;
}

}  // namespace

void VpmmSpace::reserve() {
    const Address address = memory_.reserve_range(chunk_bytes_);
    VpmmChunk& chunk = chunks_[address];
    chunk.address = address;
    chunk.first = new_region();
    *chunk.first = {.address = address, .bytes = chunk_bytes_, .chunk = &chunk};
    list(*chunk.first);
}

VpmmRegion& VpmmSpace::hole_for(std::size_t bytes) {
    auto fit = holes_.lower_bound({bytes, 0, nullptr});
    if (fit == holes_.end()) {
        reserve();
        fit = holes_.lower_bound({bytes, 0, nullptr});
    }
    return *fit->region;
}

VpmmRegion& VpmmSpace::carve(VpmmRegion& hole, std::size_t bytes) {
    holes_.erase(hole.listed);
    if (bytes < hole.bytes) list(split(hole, bytes));
    hole.state = VpmmState::fresh;
    return hole;
}

void VpmmSpace::make_hole(VpmmRegion& region) {
    VpmmRegion* whole = &region;
    region.state = VpmmState::hole;
    if (is_hole(region.behind)) {
        holes_.erase(region.behind->listed);
        absorb(region);
    }
    if (is_hole(region.before)) {
        whole = region.before;
        holes_.erase(whole->listed);
        absorb(*whole);
    }
    list(*whole);
}

VpmmRegion& VpmmSpace::split(VpmmRegion& region, std::size_t bytes) {
    VpmmRegion* const rest = new_region();
    *rest = {.address = region.address + bytes,
             .bytes = region.bytes - bytes,
             .before = &region,
             .behind = region.behind,
             .chunk = region.chunk,
             .state = region.state,
             .stream = region.stream};
    if (rest->behind != nullptr) rest->behind->before = rest;
    region.behind = rest;
    region.bytes = bytes;
    return *rest;
}

void VpmmSpace::absorb(VpmmRegion& region) {
    VpmmRegion* const behind = region.behind;
    region.bytes += behind->bytes;
    region.behind = behind->behind;
    if (region.behind != nullptr) region.behind->before = &region;
    unused_regions_.push_back(behind);
}

void VpmmSpace::release_idle() {
    for (auto next = chunks_.begin(); next != chunks_.end();) {
        VpmmRegion& first = *(next++)->second.first;
        if (!is_hole(&first) || first.bytes < chunk_bytes_) continue;
        memory_.release_range(first.address, chunk_bytes_);
        holes_.erase(first.listed);
        unused_regions_.push_back(&first);
        chunks_.erase(first.address);
    }
}

std::span<Pages> VpmmSpace::pages_of(const VpmmRegion& region) {
    std::vector<Pages>& pages = region.chunk->pages;
    const std::size_t first = (region.address - region.chunk->address) / page_bytes_;
    const std::size_t count = region.bytes / page_bytes_;
    if (pages.size() < first + count) pages.resize(first + count);
    return std::span(pages).subspan(first, count);
}

VpmmRegion* VpmmSpace::new_region() {
    if (unused_regions_.empty()) return &regions_.emplace_back();
    VpmmRegion* const region = unused_regions_.back();
    unused_regions_.pop_back();
    return region;
}

void VpmmSpace::list(VpmmRegion& hole) {
    hole.listed = holes_.insert({hole.bytes, hole.address, &hole}).first;
}

}  // namespace gapless::runtime
