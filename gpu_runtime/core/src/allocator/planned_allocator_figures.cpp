// The allocator's reports: figures, statistics, segments, log, mismatches and overwrites.
#include <algorithm>
#include <utility>

#include "allocator/planned_allocator.h"

namespace gapless::runtime {

namespace {

GaplessBlock seen_from_outside(const Block& block) {
    const bool is_used = block.state == BlockState::used;
    return {.address = block.address,
            .bytes = block.bytes,
            .requested_bytes = is_used ? block.requested : 0,
            .stream = block.stream == kNoStream ? 0 : block.stream,
            .device = 0,
            .other_streams = static_cast<std::int32_t>(block.used_on.size()),
            .is_allocated = is_used,
            .is_active = is_used || block.state == BlockState::withheld};
}

bool has_memory(const Block& block) {
    return block.state != BlockState::hole && block.state != BlockState::vacated;
}

// Adds one segment for each stretch that has memory throughout.
void add_segments(const BlockHeap& heap, const Extent& extent,
                  std::vector<SegmentOfBlocks>& segments) {
    bool is_behind_hole = true;
    for (const Block* block = heap.first_of(extent); block != nullptr; block = block->behind) {
        if (!has_memory(*block)) {
            is_behind_hole = true;
            continue;
        }
        const GaplessBlock seen = seen_from_outside(*block);
        if (is_behind_hole) {
            segments.push_back({{.address = block->address,
                                 .bytes = 0,
                                 .stream = heap.is_in_arena(*block) ? 0 : seen.stream,
                                 .device = 0,
                                 .is_plain = extent.is_plain()},
                                {}});
            is_behind_hole = false;
        }
        segments.back().segment.bytes += block->bytes;
        segments.back().blocks.push_back(seen);
    }
}

}  // namespace

std::vector<LogEntry> PlannedAllocator::take_log() {
    const Lock lock(mutex_);
    // Reserves the length of the last log: growing the log step by step costs as much as serving a
    // request.
    std::vector<LogEntry> next;
    next.reserve(log_.size());
    return std::exchange(log_, std::move(next));
}

void PlannedAllocator::drop_log() {
    const Lock lock(mutex_);
    log_.clear();
}

Figures PlannedAllocator::figures() const {
    const Lock lock(mutex_);
    Figures figures = figures_;
    figures.requested_bytes = requested_bytes_;
    figures.allocated_bytes = allocated_bytes_;
    figures.reserved_bytes = static_cast<std::int64_t>(heap_.reserved_bytes());
    figures.arena_bytes = static_cast<std::int64_t>(heap_.arena_bytes());
    figures.live_peak = bound_.live_peak();
    figures.moved_bytes = static_cast<std::int64_t>(heap_.moved_bytes() - moved_before_);
    return figures;
}

void PlannedAllocator::reset_peaks() {
    const Lock lock(mutex_);
    figures_ = {};
    moved_before_ = heap_.moved_bytes();
    figures_.requested_peak = requested_bytes_;
    figures_.allocated_peak = allocated_bytes_;
    figures_.reserved_peak = static_cast<std::int64_t>(heap_.reserved_bytes());
    mismatches_.clear();
    mismatch_counts_.assign(kMismatchKinds, 0);
}

GaplessStatistics PlannedAllocator::statistics() const {
    const Lock lock(mutex_);
    return statistics_.sums();
}

void PlannedAllocator::reset_statistics_peaks() {
    const Lock lock(mutex_);
    statistics_.reset_peaks();
}

std::vector<SegmentOfBlocks> PlannedAllocator::segments() const {
    const Lock lock(mutex_);
    std::vector<SegmentOfBlocks> segments;
    for (const Extent& extent : heap_.extents()) add_segments(heap_, extent, segments);
    std::ranges::sort(segments, {},
                      [](const SegmentOfBlocks& found) { return found.segment.address; });
    return segments;
}

std::vector<ArenaBlock> PlannedAllocator::blocks_in_arena() const {
    const Lock lock(mutex_);
    std::vector<ArenaBlock> blocks;
    for (const Block* block = heap_.first_of_arena(); block != nullptr; block = block->behind) {
        if (block->state != BlockState::used && block->state != BlockState::withheld) continue;
        blocks.push_back({static_cast<std::int64_t>(block->address - block->extent->begin()),
                          static_cast<std::int64_t>(block->bytes), block->request, block->kind,
                          block->slot});
    }
    return blocks;
}

std::optional<GaplessSegment> PlannedAllocator::segment_of(Address address) const {
    const Lock lock(mutex_);
    const Extent* extent = heap_.extent_of(address);
    if (extent == nullptr) return std::nullopt;
    std::vector<SegmentOfBlocks> segments;
    add_segments(heap_, *extent, segments);
    for (const auto& [segment, blocks] : segments) {
        if (address - segment.address < segment.bytes) return segment;
    }
    return std::nullopt;
}

std::optional<GaplessBlock> PlannedAllocator::block_of(Address address) const {
    const Lock lock(mutex_);
    const Extent* extent = heap_.extent_of(address);
    if (extent == nullptr) return std::nullopt;
    for (const Block* block = heap_.first_of(*extent); block != nullptr; block = block->behind) {
        if (address - block->address >= block->bytes) continue;
        if (!has_memory(*block)) return std::nullopt;
        return seen_from_outside(*block);
    }
    return std::nullopt;
}

bool PlannedAllocator::owns(Address address) const {
    const Lock lock(mutex_);
    return heap_.extent_of(address) != nullptr;
}

std::vector<Mismatch> PlannedAllocator::mismatches() const {
    const Lock lock(mutex_);
    return mismatches_;
}

std::vector<std::int64_t> PlannedAllocator::mismatch_counts() const {
    const Lock lock(mutex_);
    return mismatch_counts_;
}

void PlannedAllocator::on_mismatch(std::function<void(const Mismatch&)> listener) {
    auto shared = std::make_shared<const std::function<void(const Mismatch&)>>(std::move(listener));
    const Lock lock(mutex_);
    // The former listener is destroyed after the lock is released, since its destructor may run
    // Python.
    listener_.swap(shared);
}

std::vector<Overwrite> PlannedAllocator::take_overwrites(bool everywhere) {
    if (check_ == nullptr) return {};
    Lock lock(mutex_);
    if (everywhere) check_->compare_all();
    const std::uint64_t comparisons = check_->comparisons();
    lock.unlock();
    memory_.synchronize();
    lock.lock();
    std::vector<Overwrite> overwrites = check_->take(comparisons);
    for (Overwrite& found : overwrites) {
        const Extent* extent = heap_.extent_of(found.address);
        if (extent == nullptr || !heap_.is_in_arena(*heap_.first_of(*extent))) continue;
        found.offset = static_cast<std::int64_t>(found.address - extent->begin());
    }
    return overwrites;
}

void PlannedAllocator::measure_reserved(bool moves_once) {
    const auto reserved = static_cast<std::int64_t>(heap_.reserved_bytes());
    figures_.reserved_peak = std::max(figures_.reserved_peak, reserved);
    bound_.note_mapped(static_cast<std::int64_t>(heap_.mapped_bytes()), reserved,
                       moves_once || placement() == Placement::in_order);
    step_reserved_peak_ = std::max(step_reserved_peak_, reserved);
    // Counts the same segments as segments() returns.
    statistics_.reserved(heap_.stretches(), heap_.reserved_bytes());
}

}  // namespace gapless::runtime
