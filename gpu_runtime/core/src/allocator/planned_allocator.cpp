#include "allocator/planned_allocator.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace gapless::runtime {

PlannedAllocator::PlannedAllocator(DeviceMemory& memory, bool is_plain, bool is_checked,
                                   double share_of_moves)
    : limited_(memory),
      device_(limited_),
      check_(is_checked ? std::make_unique<OverwriteCheck>(device_) : nullptr),
      blocks_(check_.get(), device_, is_plain, share_of_moves) {}

Address PlannedAllocator::allocate(std::size_t bytes, Stream stream) {
    if (bytes == 0) return 0;
    if (bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    Address address = 0;
    std::optional<Mismatch> mismatch;
    std::shared_ptr<const MismatchListener> listener;
    {
        Lock lock(mutex_);
        const Served served = blocks_.allocate(lock, bytes, stream);
        address = served.block->address;
        if (served.mismatch != nullptr) {
            mismatch = *served.mismatch;
            listener = blocks_.listener();
        }
    }
    if (listener && *listener) (*listener)(*mismatch);
    return address;
}

bool PlannedAllocator::begin_pool(PoolId pool) {
    const Lock lock(mutex_);
    return !is_plain() && blocks_.graphs().begin(pool);
}

Address PlannedAllocator::allocate_in_pool(PoolId pool, std::size_t bytes, Stream stream) {
    Lock lock(mutex_);
    if (bytes == 0 || bytes > kMostBytes) return 0;
    return blocks_.allocate_in_pool(lock, pool, bytes, stream);
}

void PlannedAllocator::end_capture(PoolId pool) {
    Lock lock(mutex_);
    if (!blocks_.graphs().is_capturing(pool)) return;
    const bool must_wait = blocks_.graphs().must_wait(pool);
    if (must_wait) {
        // Replays of the pool's earlier graphs may use pages that get other frames.
        const Unlocked waiting(lock);
        device_.synchronize();
    }
    blocks_.graphs().end_capture(pool, must_wait);
}

void PlannedAllocator::end_pool(PoolId pool) {
    const Lock lock(mutex_);
    blocks_.graphs().end(pool);
}

void PlannedAllocator::lend(PoolId pool) {
    const Lock lock(mutex_);
    blocks_.graphs().lend(pool);
}

void PlannedAllocator::set_exclusive_graphs(bool is_exclusive) {
    const Lock lock(mutex_);
    blocks_.graphs().set_exclusive(is_exclusive);
}

bool PlannedAllocator::free(Address address) noexcept {
    if (address == 0) return false;
    const Lock lock(mutex_);
    const auto [heap, block] = blocks_.find(address);
    if (block == nullptr) return blocks_.free_of_graphs(address);
    blocks_.free(*heap, *block);
    return true;
}

bool PlannedAllocator::use_on(Address address, Stream stream) {
    const Lock lock(mutex_);
    const auto [heap, block] = blocks_.find(address);
    if (block == nullptr) return blocks_.graphs().use_on(address, stream);
    heap->blocks().use_on(*block, stream);
    return true;
}

void PlannedAllocator::limit(std::size_t bytes) {
    const Lock lock(mutex_);
    limited_.limit(bytes);
}

StepEnd PlannedAllocator::begin_step(std::int32_t label) {
    Lock lock(mutex_);
    return blocks_.begin_step(lock, label);
}

StepEnd PlannedAllocator::end_step(bool completed) {
    Lock lock(mutex_);
    return blocks_.end_step(lock, completed);
}

std::vector<StepKind> PlannedAllocator::to_plan() const {
    const Lock lock(mutex_);
    return blocks_.to_plan();
}

std::vector<StepKind> PlannedAllocator::kinds() const {
    const Lock lock(mutex_);
    return blocks_.steps().kinds();
}

bool PlannedAllocator::has_plans() const {
    const Lock lock(mutex_);
    return blocks_.steps().has_plans();
}

std::vector<std::array<std::int64_t, 5>> PlannedAllocator::blocks_in_use() const {
    const Lock lock(mutex_);
    std::vector<std::array<std::int64_t, 5>> rows;
    for (const BoundedHeap* const heap : blocks_.heaps()) {
        for (const Extent& extent : heap->blocks().extents()) {
            const Block* block = heap->blocks().first_of(extent);
            for (; block != nullptr; block = block->behind) {
                if (block->state != BlockState::used) continue;
                const Stream stream = heap == &blocks_.heap() ? block->stream : kNoStream;
                rows.push_back({static_cast<std::int64_t>(block->address),
                                static_cast<std::int64_t>(block->bytes),
                                static_cast<std::int64_t>(stream), blocks_.steps().kind_of(*block),
                                block->request});
            }
        }
    }
    std::ranges::sort(rows);
    return rows;
}

void PlannedAllocator::adopt(std::vector<StepPlan> plans, std::size_t arena_bytes) {
    Lock lock(mutex_);
    if (blocks_.steps().in_step()) throw std::logic_error("plans are adopted between steps");
    blocks_.adopt(lock, std::move(plans), arena_bytes);
}

std::size_t PlannedAllocator::give_back() {
    Lock lock(mutex_);
    return blocks_.give_back(lock);
}

std::string PlannedAllocator::set_tag(const std::string& tag) {
    const Lock lock(mutex_);
    return blocks_.tagged().set_tag(tag);
}

// The heap of a tag, or all heaps. Throws std::invalid_argument, std::logic_error.
Heaps PlannedAllocator::heaps_of(const std::optional<std::string>& tag) {
    if (is_plain()) {
        throw std::logic_error(
            "plain memory cannot be paused, because it would get another address, and libraries "
            "may have registered it; pages are needed (arena=\"vmm\")");
    }
    for (BoundedHeap* const heap : blocks_.heaps()) {
        if (!heap->blocks().is_capturing()) continue;
        throw std::logic_error("memory is paused and resumed while no graph is captured");
    }
    if (!tag) return blocks_.heaps();
    auto& by_tag = blocks_.tagged().by_tag();
    const auto found = by_tag.find(*tag);
    if (found != by_tag.end()) return {&found->second};
    std::string known;
    for (const auto& [name, heap] : by_tag) known += " '" + name + "'";
    throw std::invalid_argument("tag: one of" + (known.empty() ? " none so far" : known) +
                                ", found '" + *tag + "'");
}

std::size_t PlannedAllocator::pause(const std::optional<std::string>& tag, bool keeps) {
    Lock lock(mutex_);
    return runtime::pause(lock, heaps_of(tag), keeps);
}

std::size_t PlannedAllocator::resume(const std::optional<std::string>& tag) {
    Lock lock(mutex_);
    return runtime::resume(lock, heaps_of(tag));
}

std::vector<std::pair<Address, std::size_t>> PlannedAllocator::paused_blocks() const {
    const Lock lock(mutex_);
    return runtime::paused_blocks(blocks_.heaps());
}

Figures PlannedAllocator::figures() const {
    const Lock lock(mutex_);
    return blocks_.figures();
}

void PlannedAllocator::reset_peaks() {
    const Lock lock(mutex_);
    blocks_.reset_peaks();
}

GaplessStatistics PlannedAllocator::statistics() const {
    const Lock lock(mutex_);
    return blocks_.statistics().sums();
}

void PlannedAllocator::reset_statistics_peaks() {
    const Lock lock(mutex_);
    blocks_.statistics().reset_peaks();
}

std::vector<SegmentOfBlocks> PlannedAllocator::segments() const {
    const Lock lock(mutex_);
    std::vector<SegmentOfBlocks> segments;
    for (const BoundedHeap* heap : blocks_.heaps()) {
        std::ranges::move(segments_of(heap->blocks()), std::back_inserter(segments));
    }
    std::ranges::move(blocks_.graphs().segments(), std::back_inserter(segments));
    std::ranges::sort(segments, {},
                      [](const SegmentOfBlocks& found) { return found.segment.address; });
    return segments;
}

std::optional<GaplessSegment> PlannedAllocator::segment_of(Address address) const {
    const Lock lock(mutex_);
    const BoundedHeap* const heap = blocks_.heap_at(address);
    if (heap != nullptr) return runtime::segment_of(heap->blocks(), address);
    for (const auto& [segment, blocks, is_planned] : blocks_.graphs().segments()) {
        if (address - segment.address < segment.bytes) return segment;
    }
    return std::nullopt;
}

std::optional<GaplessBlock> PlannedAllocator::block_of(Address address) const {
    const Lock lock(mutex_);
    const BoundedHeap* const heap = blocks_.heap_at(address);
    if (heap == nullptr) return blocks_.graphs().block_of(address);
    return runtime::block_of(heap->blocks(), address);
}

bool PlannedAllocator::owns(Address address) const {
    const Lock lock(mutex_);
    return blocks_.heap_at(address) != nullptr || blocks_.graphs().owns(address);
}

std::vector<Mismatch> PlannedAllocator::mismatches() const {
    const Lock lock(mutex_);
    return blocks_.mismatches();
}

std::vector<std::int64_t> PlannedAllocator::mismatch_counts() const {
    const Lock lock(mutex_);
    return blocks_.mismatch_counts();
}

void PlannedAllocator::on_mismatch(MismatchListener listener) {
    auto shared = std::make_shared<const MismatchListener>(std::move(listener));
    const Lock lock(mutex_);
    // The former listener is destroyed after the lock is released, since its destructor may run
    // Python.
    blocks_.swap_listener(shared);
}

std::vector<Overwrite> PlannedAllocator::take_overwrites(bool everywhere) {
    Lock lock(mutex_);
    return blocks_.take_overwrites(lock, everywhere);
}

void PlannedAllocator::check() const {
    const Lock lock(mutex_);
    for (const BoundedHeap* heap : blocks_.heaps()) heap->blocks().check();
}

}  // namespace gapless::runtime
