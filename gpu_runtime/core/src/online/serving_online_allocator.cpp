#include "online/serving_online_allocator.h"

#include <algorithm>
#include <cstdint>

namespace gapless::runtime {

namespace {

GaplessBlock shown(const OnlineBlock& block, Stream stream) {
    const bool is_allocated = block.state == OnlineState::allocated;
    return {.address = block.address,
            .bytes = block.bytes,
            .requested_bytes = block.requested,
            .stream = stream,
            .device = 0,
            .other_streams = 0,
            .is_allocated = is_allocated,
            .is_active = is_allocated || block.state == OnlineState::pending};
}

// Adds the mapped stretches of a range.
void add_stretches(const OnlineSegment& range, std::vector<SegmentOfBlocks>& found) {
    bool is_behind_hole = true;
    for (const OnlineBlock& block : range.blocks) {
        if (block.state == OnlineState::unmapped) {
            is_behind_hole = true;
            continue;
        }
        if (is_behind_hole) {
            found.push_back({{.address = block.address,
                              .bytes = 0,
                              .stream = range.stream,
                              .device = 0,
                              .is_plain = range.is_plain},
                             {}});
            is_behind_hole = false;
        }
        found.back().segment.bytes += block.bytes;
        found.back().blocks.push_back(shown(block, range.stream));
    }
}

}  // namespace

ServingOnlineAllocator::ServingOnlineAllocator(OnlineAllocator& allocator,
                                               const CountingMemory& memory)
    : allocator_(allocator), memory_(memory) {
    allocator_.keep(&statistics_);
    // Some allocators reserve memory before the first request.
    const Call call(*this);
}

ServingOnlineAllocator::Call::~Call() {
    const OnlineFigures& figures = owner_.allocator_.figures();
    owner_.reserved_part_.set(figures.segments, figures.reserved_bytes);
}

Address ServingOnlineAllocator::allocate(std::size_t bytes, Stream stream) {
    if (bytes == 0) return 0;
    const Call call(*this);
    return allocator_.allocate(bytes, stream);
}

bool ServingOnlineAllocator::free(Address address) noexcept {
    const Call call(*this);
    return allocator_.free(address);
}

bool ServingOnlineAllocator::use_on(Address address, Stream stream) {
    const Call call(*this);
    return allocator_.use_on(address, stream);
}

std::size_t ServingOnlineAllocator::give_back() {
    const Call call(*this);
    const std::size_t before = allocator_.figures().reserved_bytes;
    allocator_.give_back();
    return before - allocator_.figures().reserved_bytes;
}

void ServingOnlineAllocator::begin_iteration() {
    const std::lock_guard lock(mutex_);
    allocator_.begin_iteration();
}

void ServingOnlineAllocator::enter(std::int64_t visit) {
    const std::lock_guard lock(mutex_);
    allocator_.enter(visit);
}

bool ServingOnlineAllocator::owns(Address address) const { return segment_of(address).has_value(); }

std::optional<GaplessBlock> ServingOnlineAllocator::block_of(Address address) const {
    {
        const std::lock_guard lock(mutex_);
        if (const std::optional<LiveBlock> live = allocator_.live_block(address)) {
            return GaplessBlock{.address = address,
                                .bytes = live->bytes,
                                .requested_bytes = live->requested,
                                .stream = live->stream,
                                .device = 0,
                                .other_streams = static_cast<std::int32_t>(live->other_streams),
                                .is_allocated = true,
                                .is_active = true};
        }
    }
    // Callers rarely ask for an address other than the begin of a live block.
    for (const auto& [segment, blocks, is_planned] : segments()) {
        for (const GaplessBlock& block : blocks) {
            if (address - block.address < block.bytes) return block;
        }
    }
    return std::nullopt;
}

std::optional<GaplessSegment> ServingOnlineAllocator::segment_of(Address address) const {
    for (const auto& [segment, blocks, is_planned] : segments()) {
        if (address - segment.address < segment.bytes) return segment;
    }
    return std::nullopt;
}

std::vector<SegmentOfBlocks> ServingOnlineAllocator::segments() const {
    const std::lock_guard lock(mutex_);
    std::vector<SegmentOfBlocks> found;
    for (const OnlineSegment& range : allocator_.segments()) add_stretches(range, found);
    return found;
}

GaplessStatistics ServingOnlineAllocator::statistics() const {
    const std::lock_guard lock(mutex_);
    GaplessStatistics found = statistics_.sums();
    // As PyTorch counts them with expandable segments: a mapping is one.
    const DeviceCalls calls = memory_.calls();
    found.device_allocations = static_cast<std::int64_t>(calls.allocate_plain + calls.map);
    found.device_frees = static_cast<std::int64_t>(calls.release_plain + calls.unmap);
    return found;
}

void ServingOnlineAllocator::reset_statistics_peaks() {
    const std::lock_guard lock(mutex_);
    statistics_.reset_peaks();
}

OnlineFigures ServingOnlineAllocator::figures() const {
    const std::lock_guard lock(mutex_);
    return allocator_.figures();
}

void ServingOnlineAllocator::reset_peaks() {
    const std::lock_guard lock(mutex_);
    allocator_.reset_peaks();
}

OwnFigures ServingOnlineAllocator::own_figures() const {
    const std::lock_guard lock(mutex_);
    return allocator_.own_figures();
}

DeviceCalls ServingOnlineAllocator::calls() const {
    const std::lock_guard lock(mutex_);
    return memory_.calls();
}

DeviceCalls ServingOnlineAllocator::nanoseconds() const {
    const std::lock_guard lock(mutex_);
    return memory_.nanoseconds();
}

void ServingOnlineAllocator::check() const {
    const std::lock_guard lock(mutex_);
    allocator_.check();
}

}  // namespace gapless::runtime
