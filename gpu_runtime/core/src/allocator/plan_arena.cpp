#include "allocator/plan_arena.h"

#include <algorithm>
#include <utility>

namespace gapless::runtime {

PlanArena::PlanArena(DeviceMemory& memory, PageHeap& heap, StepPlan plan)
    : memory_(memory), heap_(heap), plan_(std::move(plan)) {}

void PlanArena::obtain() {
    const std::size_t page_bytes = memory_.page_bytes(), bytes = plan_.arena_bytes();
    const std::size_t rest = bytes % page_bytes, range = round_up(bytes, page_bytes);
    if (range == 0) return;
    address_ = memory_.reserve_range(range);
    range_bytes_ = range;
    if (rest > 0) room_ = heap_.find_room(rest);
    const std::size_t own = room_ ? bytes - rest : range;
    if (own > 0) {
        pages_ = memory_.create_pages(own);
        own_bytes_ = own;
        memory_.map(address_, pages_, own);
        is_mapped_ = true;
    }
    if (room_) {
        memory_.map(address_ + own, room_->page, page_bytes);
        is_room_mapped_ = true;
    }
}

void PlanArena::release() {
    settle();
    if (is_room_mapped_) memory_.unmap(address_ + own_bytes_, memory_.page_bytes());
    is_room_mapped_ = false;
    if (room_) heap_.free(room_->block);
    room_.reset();
    if (is_mapped_) memory_.unmap(address_, own_bytes_);
    is_mapped_ = false;
    if (own_bytes_ > 0) memory_.release_pages(pages_);
    own_bytes_ = 0;
    if (range_bytes_ > 0) memory_.release_range(address_, range_bytes_);
    range_bytes_ = 0;
}

Decision PlanArena::request(Stream stream, std::size_t bytes) {
    const Decision decision = plan_.request(stream, bytes);
    if (decision.kind == Decision::Kind::planned && !uses_.empty()) wait_for_uses(decision.slot);
    return decision;
}

std::int32_t PlanArena::slot_at(Address address) const {
    const std::int32_t slot = plan_.slot_at(address - address_);
    return std::ranges::find(withheld_, slot) == withheld_.end() ? slot : -1;
}

void PlanArena::free(std::int32_t slot) {
    if (used_on_.contains(slot)) record_uses(slot);
    plan_.release(slot);
}

void PlanArena::use_on(std::int32_t slot, Stream stream) {
    if (stream == plan_.stream_of(slot)) return;
    std::vector<Stream>& streams = used_on_[slot];
    if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
}

void PlanArena::settle() {
    for (const std::int32_t slot : withheld_) plan_.release(slot);
    withheld_.clear();
    while (!uses_.empty()) {
        // Another device's stream may be at work yet.
        memory_.await(uses_.begin()->second.event);
        memory_.destroy_event(uses_.begin()->second.event);
        uses_.erase(uses_.begin());
    }
}

// See Note [Uses by other streams].
void PlanArena::wait_for_uses(std::int32_t slot) {
    const std::int64_t end = plan_.end_of(slot);
    try {
        auto found = uses_.upper_bound(plan_.offset_of(slot));
        while (found != uses_.end() && found->second.begin < end) {
            Use& use = found->second;
            if (!use.waited_for) memory_.make_wait(plan_.stream_of(slot), use.event);
            use.waited_for = true;
            memory_.destroy_event(use.event);
            found = uses_.erase(found);
        }
    } catch (...) {
        plan_.release(slot);
        throw;
    }
}

void PlanArena::record_uses(std::int32_t slot) {
    const std::vector<Stream> streams = std::move(used_on_.extract(slot).mapped());
    try {
        for (const Stream stream : streams) {
            const Use use{plan_.offset_of(slot), memory_.record_event(stream)};
            uses_.emplace(plan_.end_of(slot), use);
        }
    } catch (...) {
        withheld_.push_back(slot);
        throw;
    }
}

}  // namespace gapless::runtime
