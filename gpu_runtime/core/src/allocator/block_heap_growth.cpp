// Where the heap grows, and how memory is mapped there.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "allocator/block_heap.h"

namespace gapless::runtime {

namespace {

// Bytes of addresses that an extent and the arena reserve. Addresses are free, but a new extent
// costs a device call. Both sizes are guesses.
constexpr std::size_t kExtentBytes = std::size_t{64} << 30;
constexpr std::size_t kArenaBytes = std::size_t{1} << 39;
// A plain allocation has a multiple of so many pages. A guess.
constexpr std::size_t kPlainPages = 4;
// Pages that may be mapped without asking the device for its free memory first. A guess.
constexpr std::size_t kUncheckedPages = 32;

}  // namespace

std::size_t BlockHeap::missing_for(std::size_t requested, Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    return is_plain_ ? round_up(bytes, kPlainPages * page_bytes_)
                     : gap_for(heap_of(stream, is_whole(bytes)), bytes).missing;
}

void BlockHeap::grow(std::size_t requested, Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    StreamHeap& heap = heap_of(stream, is_whole(bytes));
    if (is_plain_) return add_plain(missing_for(bytes, stream), stream);
    Gap gap = gap_for(heap, bytes);
    if (!gap.is_at_tail()) {
        require_free(gap.missing);
        return fill_gap(heap, gap.range);
    }
    if (heap.tail == nullptr || heap.tail->bytes < gap.missing) {
        heap.tail = hole_for(stream, bytes);
        gap.missing = round_up(bytes - std::min(bytes, free_before(heap.tail)), page_bytes_);
    }
    require_free(gap.missing);
    map_at(heap.tail, gap.missing);
}

// See Note [Holes between blocks]. Ties go to the later place, and never to the tail.
BlockHeap::Gap BlockHeap::gap_for(StreamHeap& heap, std::size_t bytes) {
    add_latest(heap);
    const std::size_t present = heap.tail == nullptr ? 0 : free_before(heap.tail);
    Gap best{{}, round_up(bytes - std::min(bytes, present), page_bytes_)};
    if (heap.tail == nullptr || heap.tail->bytes < best.missing) {
        best.missing = round_up(bytes, page_bytes_);
    }
    const auto is_idle = [](const Block* block) {
        return block != nullptr &&
               (block->state == BlockState::free || block->state == BlockState::hole);
    };
    for (const Sized& hole : heap.holes) {
        const Block* first = hole.block;
        if (first == heap.tail) continue;
        if (is_idle(first->before)) first = first->before;
        // Another hole comes before this one in the same idle stretch, so the stretch was examined
        // already.
        if (is_idle(first->before)) continue;
        const Block* last = hole.block;
        while (is_idle(last->behind)) last = last->behind;
        improve(best, *first, *last, bytes);
    }
    return best;
}

// Tries each block of an idle stretch as the beginning of the place. The missing bytes are a
// sliding sum, so the time is linear in the number of blocks.
void BlockHeap::improve(Gap& best, const Block& first, const Block& last, std::size_t bytes) const {
    const auto unmapped = [](const Block& block) {
        return block.state == BlockState::hole ? block.bytes : 0;
    };
    const Block* behind = &first;
    std::size_t whole = 0;  // missing bytes from `begin` to `behind`
    for (const Block* begin = &first;; begin = begin->behind) {
        const Range range{begin->address, begin->address + bytes};
        if (range.end > last.end()) return;
        for (; behind->end() < range.end; behind = behind->behind) whole += unmapped(*behind);
        const std::size_t part = behind->state == BlockState::hole
                                     ? round_up(range.end - behind->address, page_bytes_)
                                     : 0;
        if (whole + part <= best.missing) best = {range, whole + part};
        if (begin == &last) return;
        if (begin == behind) {
            behind = behind->behind;
        } else {
            whole -= unmapped(*begin);
        }
    }
}

void BlockHeap::fill_gap(StreamHeap& heap, const Range& range) {
    const auto is_within = [&](const Sized& hole) {
        return hole.address < range.end && hole.block->end() > range.begin;
    };
    for (;;) {
        const auto entry = std::ranges::find_if(heap.holes, is_within);
        if (entry == heap.holes.end()) return;
        Block* hole = entry->block;
        const std::size_t bytes =
            round_up(std::min(hole->end(), range.end) - hole->address, page_bytes_);
        map_at(hole == heap.tail ? heap.tail : hole, bytes);
    }
}

// Checks the free memory first, because mapping most of a card takes long and would have to be
// undone.
void BlockHeap::require_free(std::size_t bytes) {
    if (bytes <= available_bytes() + kUncheckedPages * page_bytes_) return;
    const std::size_t free_bytes = memory_.free_bytes();
    if (bytes - available_bytes() > free_bytes) {
        throw OutOfDeviceMemory(std::to_string(free_bytes) + " bytes are free");
    }
}

std::size_t BlockHeap::arena_missing(std::size_t offset, std::size_t bytes) const {
    if (arena_ == nullptr) return bytes;
    if (is_plain_) return arena_->bytes() < offset + bytes ? bytes : 0;
    const Address begin = arena_->begin() + offset, end = begin + bytes;
    auto entry = arena_holes_.upper_bound(begin);
    if (entry != arena_holes_.begin()) --entry;
    std::size_t missing = 0;
    for (; entry != arena_holes_.end() && entry->address < end; ++entry) {
        const Block& hole = *entry->block;
        if (hole.end() > begin)
            missing += std::min(hole.end(), end) - std::max(entry->address, begin);
    }
    return missing;
}

bool BlockHeap::is_unmapped(std::size_t offset, std::size_t bytes) const {
    if (arena_ == nullptr || is_plain_ || offset + bytes > arena_->bytes()) return false;
    const Address begin = arena_->begin() + offset, end = begin + bytes;
    const Block* first = nullptr;
    for (const auto* ranges : {&arena_free_, &arena_holes_}) {
        const auto behind = ranges->upper_bound(begin);
        if (behind == ranges->begin()) continue;
        const Block* const block = std::prev(behind)->block;
        if (block->end() > begin) first = block;
    }
    bool has_hole = false;
    for (const Block* block = first; block != nullptr; block = block->behind) {
        if (block->state != BlockState::free && block->state != BlockState::hole) return false;
        has_hole = has_hole || block->state == BlockState::hole;
        if (block->end() >= end) return has_hole;
    }
    return false;
}

void BlockHeap::fill_arena(std::size_t offset, std::size_t bytes) {
    const std::size_t first = offset / page_bytes_ * page_bytes_;
    const std::size_t last = round_up(offset + bytes, page_bytes_);
    if (arena_missing(first, last - first) == 0) return;
    if (is_plain_) return replace_arena(last);
    reserve_arena(last);
    require_free(arena_missing(first, last - first));
    const Address begin = arena_->begin() + first, end = arena_->begin() + last;
    for (;;) {
        auto entry = arena_holes_.upper_bound(begin);
        if (entry != arena_holes_.begin() && std::prev(entry)->block->end() > begin) --entry;
        if (entry == arena_holes_.end() || entry->address >= end) return;
        fill(entry->block, begin, end);
    }
}

void BlockHeap::refill_arena(std::size_t bytes) {
    const std::size_t last = round_up(bytes, page_bytes_);
    reserve_arena(last);
    const Address end = arena_->begin() + last;
    while (available_bytes() > 0 && !arena_holes_.empty() && arena_holes_.begin()->address < end) {
        Block* const hole = arena_holes_.begin()->block;
        fill(hole, hole->address, std::min(end, hole->address + available_bytes()));
    }
}

// Reserves the addresses of the arena. Throws OutOfDeviceMemory if `bytes` exceeds them.
void BlockHeap::reserve_arena(std::size_t bytes) {
    if (arena_ == nullptr) {
        const std::size_t range = std::max(round_up(kArenaBytes, page_bytes_), bytes);
        arena_ = &add_extent(Extent::paged(memory_, range), BlockState::hole, kNoStream);
        index(*first_.at(arena_));
    }
    if (bytes > arena_->bytes()) throw OutOfDeviceMemory("no device has as much");
}

// Maps the part of a hole of the arena that lies between two addresses.
void BlockHeap::fill(Block* hole, Address begin, Address end) {
    if (hole->address < begin) {
        unindex(*hole);
        Block* const rest = split(*hole, begin - hole->address);
        index(*hole);
        index(*rest);
        hole = rest;
    }
    try {
        map_at(hole, std::min(hole->end(), end) - hole->address);
    } catch (...) {
        unindex(*hole);
        add_hole(*hole);
        throw;
    }
}

void BlockHeap::replace_arena(std::size_t bytes) {
    close_arena();
    arena_ = &add_extent(Extent::plain(memory_, bytes), BlockState::free, kNoStream);
    reserved_bytes_ += bytes;
    ++stretches_;
    arena_bytes_ = bytes;
    index(*first_.at(arena_));
}

// The arena becomes ordinary memory, and its free ranges go to the streams that used them last.
// Its holes are closed, since a heap grows at holes of one stream.
void BlockHeap::close_arena() {
    if (arena_ == nullptr) return;
    for (Block* block = first_.at(arena_); block != nullptr; block = block->behind) {
        const Stream owner = block->stream == kNoStream ? 0 : block->stream;
        if (!block->marks.empty()) make_wait({&block, 1}, owner);
    }
    arena_->close();
    Block* block = first_.at(std::exchange(arena_, nullptr));
    arena_bytes_ = 0;
    arena_free_.clear();
    for (auto& [stream, heap] : heaps_) heap.in_arena.clear();
    arena_holes_.clear();
    for (; block != nullptr; block = block->behind) {
        if (block->stream == kNoStream) block->stream = 0;
        block->marks.clear();
        if (block->state == BlockState::hole) block->state = BlockState::closed;
        if (block->state == BlockState::free) block = add_free(*block);
    }
}

bool BlockHeap::is_arena_in_use() const {
    if (arena_ == nullptr) return false;
    for (const Block* block = first_.at(arena_); block != nullptr; block = block->behind) {
        if (block->state == BlockState::used || block->state == BlockState::withheld) return true;
    }
    return false;
}

// Returns a hole with room for `bytes` bytes, and one page more, where the heap can grow again.
Block* BlockHeap::hole_for(Stream stream, std::size_t bytes) {
    const std::size_t wanted = round_up(bytes, page_bytes_) + page_bytes_;
    const StreamHeap& heap = heap_of(stream, is_whole(bytes));
    const auto fit = heap.holes.lower_bound({wanted, 0, nullptr});
    if (fit != heap.holes.end()) return fit->block;
    std::size_t range = std::max(wanted, round_up(kExtentBytes, page_bytes_));
    const auto reserve = [&] {
        try {
            return Extent::paged(memory_, range, is_whole(bytes));
        } catch (const OutOfDeviceMemory&) {
            // Thousands of streams may have reserved nearly all addresses.
            range = wanted;
            return Extent::paged(memory_, range, is_whole(bytes));
        }
    };
    Extent& extent = add_extent(reserve(), BlockState::hole, stream);
    Block* hole = first_.at(&extent);
    index(*hole);
    return hole;
}

std::size_t BlockHeap::free_before(const Block* hole) const {
    const Block* before = hole->before;
    return before != nullptr && before->state == BlockState::free ? before->bytes : 0;
}

// Maps memory at the beginning of a hole. Afterwards `hole` is the rest of the hole, or null.
void BlockHeap::map_at(Block*& hole, std::size_t bytes) {
    if (bytes == 0) return;
    Block* place = hole;
    Row row;
    try {
        obtain(row, bytes / page_bytes_);
        place->extent->map(place->address, row.frames);
        memory_.show(place->address, bytes);
    } catch (...) {
        put_back(row);
        throw;
    }
    unindex(*place);
    hole = place->bytes > bytes ? split(*place, bytes) : nullptr;
    if (hole != nullptr) index(*hole);
    const auto arrive_next = [&](std::size_t part, const Block* source) {
        if (part == 0) return;
        Block* const rest = place->bytes > part ? split(*place, part) : nullptr;
        arrive(*place, source);
        place = rest;
    };
    // Only blocks of the arena have marks.
    const bool is_one = !is_in_arena(*place);
    arrive_next(is_one ? bytes : row.unused * page_bytes_, nullptr);
    for (Block* const source : row.sources) {
        if (!is_one) arrive_next(source->bytes, source);
        vacate(*source);
    }
}

// Takes frames for a row: spare ones first, then gathered ones, then new ones.
void BlockHeap::obtain(Row& row, std::size_t count) {
    const std::size_t moved =
        std::min(count, available_bytes() / page_bytes_) - std::min(count, spare_.size());
    for (; row.unused < count - moved; ++row.unused) {
        row.frames.push_back(spare_.empty() ? new_frame() : spare_.back());
        if (!spare_.empty()) spare_.pop_back();
    }
    while (row.frames.size() < count) {
        Block* const source = gathered_.back();
        const std::size_t wanted = (count - row.frames.size()) * page_bytes_;
        if (source->bytes > wanted) {
            gathered_.back() = split(*source, wanted);
        } else {
            gathered_.pop_back();
        }
        gathered_bytes_ -= source->bytes;
        row.sources.push_back(source);
        for (Address at = source->address; at < source->end(); at += page_bytes_) {
            row.frames.push_back(source->extent->frame_at(at));
        }
    }
}

void BlockHeap::put_back(const Row& row) {
    const auto unused = row.frames.begin() + static_cast<std::ptrdiff_t>(row.unused);
    spare_.insert(spare_.end(), row.frames.begin(), unused);
    for (Block* const source : row.sources) {
        gathered_.push_back(source);
        gathered_bytes_ += source->bytes;
    }
}

Pages BlockHeap::new_frame() {
    const Pages made = memory_.create_pages(page_bytes_);
    reserved_bytes_ += page_bytes_;
    return made;
}

void BlockHeap::add_plain(std::size_t bytes, Stream stream) {
    Extent& extent = add_extent(Extent::plain(memory_, bytes), BlockState::free, stream);
    reserved_bytes_ += bytes;
    ++stretches_;
    index(*first_.at(&extent));
}

Extent& BlockHeap::add_extent(Extent made, BlockState state, Stream stream) {
    Extent& extent = extents_.emplace_back(std::move(made));
    Block* block = new_block();
    block->address = extent.begin();
    block->bytes = extent.bytes();
    block->extent = &extent;
    block->state = state;
    block->stream = stream;
    first_[&extent] = block;
    extent_at_[extent.begin()] = &extent;
    return extent;
}

}  // namespace gapless::runtime
