#include "policies/serving_policy.h"

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

// The stretches of a range that have memory behind them.
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

ServingPolicy::ServingPolicy(OnlineAllocator& policy, const CountingMemory& memory)
    : policy_(policy), memory_(memory) {
    policy_.keep(&statistics_);
    // Some policies have memory before they are asked for any.
    const Call call(*this);
}

ServingPolicy::Call::~Call() {
    const OnlineFigures& figures = owner_.policy_.figures();
    owner_.statistics_.reserved(figures.segments, figures.reserved_bytes);
}

Address ServingPolicy::allocate(std::size_t bytes, Stream stream) {
    if (bytes == 0) return 0;
    const Call call(*this);
    return policy_.allocate(bytes, stream);
}

bool ServingPolicy::free(Address address) noexcept {
    const Call call(*this);
    return policy_.free(address);
}

bool ServingPolicy::use_on(Address address, Stream stream) {
    const Call call(*this);
    return policy_.use_on(address, stream);
}

std::size_t ServingPolicy::give_back() {
    const Call call(*this);
    const std::size_t before = policy_.figures().reserved_bytes;
    policy_.give_back();
    return before - policy_.figures().reserved_bytes;
}

bool ServingPolicy::owns(Address address) const { return segment_of(address).has_value(); }

std::optional<GaplessBlock> ServingPolicy::block_of(Address address) const {
    {
        const std::lock_guard lock(mutex_);
        if (const std::optional<LiveBlock> live = policy_.live_block(address)) {
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
    // Few ask about another address than that of a block that lives.
    for (const auto& [segment, blocks] : segments()) {
        for (const GaplessBlock& block : blocks) {
            if (address - block.address < block.bytes) return block;
        }
    }
    return std::nullopt;
}

std::optional<GaplessSegment> ServingPolicy::segment_of(Address address) const {
    for (const auto& [segment, blocks] : segments()) {
        if (address - segment.address < segment.bytes) return segment;
    }
    return std::nullopt;
}

std::vector<SegmentOfBlocks> ServingPolicy::segments() const {
    const std::lock_guard lock(mutex_);
    std::vector<SegmentOfBlocks> found;
    for (const OnlineSegment& range : policy_.segments()) add_stretches(range, found);
    return found;
}

GaplessStatistics ServingPolicy::statistics() const {
    const std::lock_guard lock(mutex_);
    GaplessStatistics found = statistics_.sums();
    // As PyTorch counts them with expandable segments: a mapping is one.
    const DeviceCalls& calls = memory_.calls();
    found.device_allocations = static_cast<std::int64_t>(calls.allocate_plain + calls.map);
    found.device_frees = static_cast<std::int64_t>(calls.release_plain + calls.unmap);
    return found;
}

void ServingPolicy::reset_statistics_peaks() {
    const std::lock_guard lock(mutex_);
    statistics_.reset_peaks();
}

OnlineFigures ServingPolicy::figures() const {
    const std::lock_guard lock(mutex_);
    return policy_.figures();
}

void ServingPolicy::reset_peaks() {
    const std::lock_guard lock(mutex_);
    policy_.reset_peaks();
}

DeviceCalls ServingPolicy::calls() const {
    const std::lock_guard lock(mutex_);
    return memory_.calls();
}

DeviceCalls ServingPolicy::nanoseconds() const {
    const std::lock_guard lock(mutex_);
    return memory_.nanoseconds();
}

void ServingPolicy::check() const {
    const std::lock_guard lock(mutex_);
    policy_.check();
}

}  // namespace gapless::runtime
