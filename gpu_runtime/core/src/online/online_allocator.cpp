#include "online/online_allocator.h"

#include "device/invariant.h"

namespace gapless::runtime {

void OnlineAllocator::check() const {
    OnlineFigures found;
    for (const OnlineSegment& segment : segments()) {
        Address at = segment.address;
        bool is_behind_hole = true;
        for (const OnlineBlock& block : segment.blocks) {
            require(block.address == at && block.bytes > 0, "blocks lie side by side");
            at += block.bytes;
            const bool has_memory = block.state != OnlineState::unmapped;
            if (has_memory && is_behind_hole) ++found.segments;
            is_behind_hole = !has_memory;
            if (block.state == OnlineState::allocated) {
                found.requested_bytes += block.requested;
                found.allocated_bytes += block.bytes;
            }
            if (block.state == OnlineState::free) {
                found.free_bytes += block.bytes;
            } else if (has_memory) {
                found.active_bytes += block.bytes;
            }
        }
        require(at == segment.address + segment.bytes, "blocks cover their segment");
    }
    const OnlineFigures& kept = account_.figures();
    require(found.requested_bytes == kept.requested_bytes &&
                found.allocated_bytes == kept.allocated_bytes &&
                found.active_bytes == kept.active_bytes && found.segments == kept.segments,
            "the sums are those of the listed blocks");
    // Pages that the device did not take back are free and in no block.
    require(found.free_bytes <= kept.free_bytes &&
                kept.reserved_bytes == kept.active_bytes + kept.free_bytes,
            "reserved is what is active or free");
}

}  // namespace gapless::runtime
