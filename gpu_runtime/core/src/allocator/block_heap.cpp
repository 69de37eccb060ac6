#include "allocator/block_heap.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace gapless::runtime {

namespace {

// Addresses cost nothing; a new extent is a call to the device.
constexpr std::size_t kExtentBytes = std::size_t{64} << 30;
constexpr std::size_t kArenaBytes = std::size_t{1} << 39;
// Of frames: a call to the device costs as much for many pages as for one, but idle memory can
// leave by whole frames only.
constexpr std::size_t kFramePages = 16;
// The device is asked for its free memory before it is asked for more frames than these at once.
constexpr std::size_t kUncheckedFrames = 4;

}  // namespace

BlockHeap::BlockHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics)
    : memory_(memory),
      statistics_(statistics),
      is_plain_(is_plain),
      page_bytes_(memory.page_bytes()),
      arena_free_(&nodes_),
      arena_holes_(&nodes_) {}

Block* BlockHeap::place(std::size_t requested, Stream stream, Placement placement) {
    if (!uses_.empty()) collect();
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    StreamHeap& heap = heap_of(stream);
    Block* found = heap.latest;
    if (placement == Placement::in_order && !is_plain_) {
        add_latest(heap);
        if (heap.tail == nullptr || free_before(heap.tail) < bytes) return nullptr;
        found = heap.tail->before;
        unindex(*found);
    } else if (found != nullptr && found->bytes == bytes) {
        heap.latest = nullptr;
    } else {
        add_latest(heap);
        const auto fit = heap.free.lower_bound({bytes, 0, nullptr});
        if (fit == heap.free.end()) return nullptr;
        found = fit->block;
        heap.free.erase(fit);
    }
    if (found->bytes > bytes) index(*split(*found, bytes));
    return use(*found, requested, stream);
}

Block* BlockHeap::place_at(std::int64_t offset, std::size_t requested, Stream stream) {
    if (arena_ == nullptr) return nullptr;
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    const Address address = arena_->begin() + static_cast<Address>(offset);
    auto entry = arena_free_.upper_bound(address);
    if (entry == arena_free_.begin()) return nullptr;
    Block* const first = (--entry)->second;
    if (first->end() <= address) return nullptr;
    Block* last = first;
    while (last->end() < address + bytes) {
        last = last->behind;
        if (last == nullptr || last->state != BlockState::free) return nullptr;
    }
    make_wait(*first, *last, stream);
    Block* found = first;
    if (first->address < address) {
        // What is left of it stays where the index has it.
        found = split(*first, address - first->address);
        if (last == first) last = found;
    } else {
        arena_free_.erase(entry);
    }
    if (last != found) unindex(*last);
    if (last->end() > address + bytes) index(*split(*last, address + bytes - last->address));
    while (found->bytes < bytes) {
        if (found->behind != last) unindex(*found->behind);
        absorb(*found);
    }
    return use(*found, requested, stream);
}

Block* BlockHeap::place_in_arena(std::size_t requested, Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    Block* found = nullptr;
    for (const auto& [address, block] : arena_free_) {
        const bool is_own = block->stream == stream || block->stream == kNoStream;
        if (!is_own || !block->marks.empty() || block->bytes < bytes) continue;
        if (found == nullptr || block->bytes < found->bytes) found = block;
    }
    if (found == nullptr) return nullptr;
    unindex(*found);
    if (found->bytes > bytes) index(*split(*found, bytes));
    return use(*found, requested, stream);
}

void BlockHeap::free(Block& block) {
    used_.erase(block.address);
    statistics_.freed(block.requested, block.bytes);
    if (!is_in_arena(block)) {
        if (block.used_on.empty()) {
            StreamHeap& heap = heap_of(block.stream);
            add_latest(heap);
            statistics_.finished(block.requested, block.bytes);
            block.state = BlockState::free;
            heap.latest = &block;
            return;
        }
        const std::vector<Stream> streams = std::move(block.used_on);
        block.used_on.clear();
        const std::int64_t ticket = withhold(block, streams.size());
        for (const Stream stream : streams) {
            uses_[stream].push_back(
                {std::make_shared<StreamMark>(memory_, stream), &block, ticket});
        }
        return;
    }
    if (block.is_handed_over) block.used_on.push_back(block.stream);
    const std::vector<Stream> streams = std::move(block.used_on);
    block.used_on.clear();
    try {
        for (const Stream stream : streams) {
            block.marks.push_back(std::make_shared<StreamMark>(memory_, stream));
        }
    } catch (...) {
        withhold(block, 1);
        throw;
    }
    statistics_.finished(block.requested, block.bytes);
    block.state = BlockState::free;
    add_free(block);
}

std::int64_t BlockHeap::withhold(Block& block, std::size_t streams) {
    block.state = BlockState::withheld;
    withheld_[&block] = {streams, next_ticket_};
    return next_ticket_++;
}

void BlockHeap::use_on(Block& block, Stream stream) {
    if (stream == block.stream) return;
    if (std::ranges::find(block.used_on, stream) == block.used_on.end()) {
        block.used_on.push_back(stream);
    }
}

std::size_t BlockHeap::missing_for(std::size_t requested, Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    StreamHeap& heap = heap_of(stream);
    add_latest(heap);
    if (is_plain_) return round_up(bytes, kFramePages * page_bytes_);
    const std::size_t present = heap.tail == nullptr ? 0 : free_before(heap.tail);
    const std::size_t missing = round_up(bytes - std::min(bytes, present), page_bytes_);
    if (heap.tail != nullptr && heap.tail->bytes >= missing) return missing;
    return round_up(bytes, page_bytes_);
}

void BlockHeap::grow(std::size_t requested, Stream stream, FrameSize frame_size) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    std::size_t missing = missing_for(bytes, stream);
    if (is_plain_) return add_plain(missing, stream);
    StreamHeap& heap = heap_of(stream);
    if (heap.tail == nullptr || heap.tail->bytes < missing) {
        heap.tail = hole_for(heap, stream, round_up(bytes, page_bytes_));
        missing = round_up(bytes - std::min(bytes, free_before(heap.tail)), page_bytes_);
    }
    if (frame_size == FrameSize::page) split_spare();
    const std::size_t pages = frame_size == FrameSize::page ? 1 : kFramePages;
    require_free(missing);
    map_at(heap.tail, missing, pages * page_bytes_);
}

// Most of a card would take long to map, only to be given back.
void BlockHeap::require_free(std::size_t bytes) {
    if (bytes <= spare_bytes_ + kUncheckedFrames * kFramePages * page_bytes_) return;
    const std::size_t free_bytes = memory_.free_bytes();
    if (bytes - spare_bytes_ > free_bytes) {
        throw OutOfDeviceMemory(std::to_string(free_bytes) + " bytes are free");
    }
}

std::size_t BlockHeap::arena_missing(std::size_t bytes) const {
    if (arena_ == nullptr) return bytes;
    if (is_plain_) return arena_->bytes() < bytes ? bytes : 0;
    const Address end = arena_->begin() + bytes;
    std::size_t missing = 0;
    for (const auto& [address, hole] : arena_holes_) {
        if (address >= end) break;
        missing += std::min(hole->end(), end) - address;
    }
    return missing;
}

void BlockHeap::grow_arena(std::size_t bytes) {
    const std::size_t wanted = round_up(bytes, page_bytes_);
    if (arena_missing(wanted) == 0) return;
    if (is_plain_) return replace_arena(wanted);
    if (arena_ == nullptr) {
        const std::size_t range = std::max(round_up(kArenaBytes, page_bytes_), wanted);
        arena_ = &add_extent(Extent::paged(memory_, range), BlockState::hole, kNoStream);
        index(*first_.at(arena_));
    }
    if (wanted > arena_->bytes()) throw OutOfDeviceMemory("no device has as much");
    require_free(arena_missing(wanted));
    const Address end = arena_->begin() + wanted;
    while (!arena_holes_.empty() && arena_holes_.begin()->first < end) {
        Block* hole = arena_holes_.begin()->second;
        map_at(hole, std::min(hole->end(), end) - hole->address, kFramePages * page_bytes_);
    }
}

// The arena before becomes memory like any other: its free ranges go to the streams that used them.
void BlockHeap::replace_arena(std::size_t bytes) {
    Extent* const before = arena_;
    Block* const blocks = before == nullptr ? nullptr : first_.at(before);
    for (const Block* block = blocks; block != nullptr; block = block->behind) {
        if (!block->marks.empty()) make_wait(*block, *block, block->stream);
    }
    Extent& extent = add_extent(Extent::plain(memory_, bytes), BlockState::free, kNoStream);
    reserved_bytes_ += bytes;
    arena_bytes_ = bytes;
    arena_free_.clear();
    arena_ = &extent;
    index(*first_.at(&extent));
    for (Block* block = blocks; block != nullptr; block = block->behind) {
        if (block->stream == kNoStream) block->stream = 0;
        block->marks.clear();
        if (block->state == BlockState::free) block = add_free(*block);
    }
}

BlockHeap::Leaving BlockHeap::take_idle(std::size_t bytes, std::size_t arena_kept) {
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    Leaving leaving;
    if (is_plain_) {
        take_idle_extents(leaving, bytes, arena_kept);
    } else {
        take_idle_frames(leaving, bytes, arena_kept);
    }
    try {
        std::set<Stream> streams;
        std::set<std::shared_ptr<StreamMark>> marks;
        for (const Leaving::Run& run : leaving.runs) {
            for (const Block* block = run.first;; block = block->behind) {
                streams.insert(block->stream);
                marks.insert(block->marks.begin(), block->marks.end());
                if (block == run.last) break;
            }
        }
        streams.erase(kNoStream);
        leaving.marks.assign(marks.begin(), marks.end());
        for (const Stream stream : streams) {
            leaving.marks.push_back(std::make_shared<StreamMark>(memory_, stream));
        }
    } catch (...) {
        put_back(leaving);
        throw;
    }
    return leaving;
}

void BlockHeap::take_idle_frames(Leaving& leaving, std::size_t bytes, std::size_t arena_kept) {
    std::vector<Leaving::Run> idle;
    for (auto& [stream, heap] : heaps_) {
        for (auto block = heap.free.rbegin();
             block != heap.free.rend() && block->bytes >= page_bytes_; ++block) {
            idle.push_back({block->block, block->block});
        }
    }
    std::ranges::sort(idle, [](const Leaving::Run& one, const Leaving::Run& other) {
        return sized(*one.first) > sized(*other.first);
    });
    // Of the arena last, from its end on. A frame may lie across blocks that differ in who used
    // them.
    const Address kept =
        arena_ == nullptr ? 0 : arena_->begin() + round_up(arena_kept, page_bytes_);
    for (auto entry = arena_free_.rbegin();
         entry != arena_free_.rend() && entry->second->end() > kept; ++entry) {
        Block* const block = entry->second;
        if (!idle.empty() && block->behind == idle.back().first) {
            idle.back().first = block;
        } else {
            idle.push_back({block, block});
        }
    }
    for (const Leaving::Run& run : idle) {
        if (leaving.bytes >= bytes) break;
        const Address from =
            is_in_arena(*run.first) ? std::max(run.first->address, kept) : run.first->address;
        const auto [first, last] =
            run.first->extent->whole_frames(from, run.last->end(), bytes - leaving.bytes);
        if (first < last) take(leaving, run.first, first, last);
    }
}

void BlockHeap::take_idle_extents(Leaving& leaving, std::size_t bytes, std::size_t arena_kept) {
    for (const Extent& extent : extents_) {
        if (leaving.bytes >= bytes) break;
        if (&extent == arena_ && arena_kept > 0) continue;
        bool is_idle = true;
        for (const Block* block = first_.at(&extent); block != nullptr; block = block->behind) {
            is_idle = is_idle && block->state == BlockState::free;
        }
        if (is_idle) take(leaving, first_.at(&extent), extent.begin(), extent.end());
    }
}

// Takes what lies between two addresses; `block` and those behind it are free.
void BlockHeap::take(Leaving& leaving, Block* block, Address first, Address last) {
    while (block->end() <= first) block = block->behind;
    unindex(*block);
    if (block->address < first) {
        Block* const taken = split(*block, first - block->address);
        index(*block);
        block = taken;
    }
    Leaving::Run run{block, block};
    for (;; block = block->behind, unindex(*block)) {
        if (block->end() > last) index(*split(*block, last - block->address));
        block->state = BlockState::leaving;
        run.last = block;
        if (block->end() == last) break;
    }
    leaving.runs.push_back(run);
    leaving.bytes += last - first;
    leaving.frames += block->extent->frames_within(first, last).size();
}

void BlockHeap::put_back(const Leaving& leaving) {
    for (const Leaving::Run& run : leaving.runs) {
        for (Block *block = run.first, *next = nullptr; block != nullptr; block = next) {
            next = block == run.last ? nullptr : block->behind;
            block->state = BlockState::free;
            add_free(*block);
        }
    }
}

void BlockHeap::await(const Leaving& leaving) const {
    for (const auto& mark : leaving.marks) memory_.await(mark->event());
}

void BlockHeap::finish(const Leaving& leaving) {
    std::exception_ptr refused;
    for (const Leaving::Run& run : leaving.runs) {
        // All is done there, whoever did it.
        Block* block = run.first;
        block->marks.clear();
        if (is_in_arena(*block)) block->stream = kNoStream;
        for (const Address end = run.last->end(); block->end() < end;) absorb(*block);
        try {
            if (refused == nullptr) {
                take_out(block);
                continue;
            }
        } catch (...) {
            refused = std::current_exception();
        }
        // What the device did not give up.
        block->state = BlockState::free;
        add_free(*block);
    }
    if (refused != nullptr) std::rethrow_exception(refused);
}

// Takes the memory behind a block away; where the device refuses, the block is what is left of it.
void BlockHeap::take_out(Block*& block) {
    if (block->extent->is_plain()) {
        Extent* const extent = block->extent;
        memory_.release_plain(extent->begin());
        reserved_bytes_ -= extent->bytes();
        if (extent == arena_) {
            arena_ = nullptr;
            arena_bytes_ = 0;
        }
        extent_at_.erase(extent->begin());
        first_.erase(extent);
        drop(*block);
        extents_.remove_if([&](const Extent& each) { return &each == extent; });
        return;
    }
    for (const auto& [address, bytes] :
         block->extent->frames_within(block->address, block->end())) {
        spare_.push_back(block->extent->unmap(address));
        spare_bytes_ += bytes;
        if (is_in_arena(*block)) arena_bytes_ -= bytes;
        Block* const rest = block->bytes > bytes ? split(*block, bytes) : nullptr;
        add_hole(*block);
        block = rest;
    }
}

// The device takes frames and gives pages for them.
void BlockHeap::split_spare() {
    std::size_t pages = 0;
    for (auto frame = spare_.begin(); frame != spare_.end();) {
        if (frame->bytes == page_bytes_) {
            ++frame;
            continue;
        }
        memory_.release_pages(frame->pages);
        pages += frame->bytes / page_bytes_;
        spare_bytes_ -= frame->bytes;
        reserved_bytes_ -= frame->bytes;
        frame = spare_.erase(frame);
    }
    for (; pages > 0; --pages) {
        spare_.push_back({memory_.create_pages(page_bytes_), page_bytes_});
        spare_bytes_ += page_bytes_;
        reserved_bytes_ += page_bytes_;
    }
}

void BlockHeap::release_spare() {
    while (!spare_.empty()) {
        memory_.release_pages(spare_.back().pages);
        spare_bytes_ -= spare_.back().bytes;
        reserved_bytes_ -= spare_.back().bytes;
        spare_.pop_back();
    }
}

BlockHeap::Unsettled BlockHeap::unsettled() const {
    Unsettled unsettled{next_ticket_, {}};
    for (const auto& [stream, uses] : uses_) {
        if (!uses.empty()) unsettled.marks.push_back(uses.back().mark);
    }
    return unsettled;
}

void BlockHeap::await(const Unsettled& unsettled) const {
    memory_.synchronize();
    for (const auto& mark : unsettled.marks) memory_.await(mark->event());
}

void BlockHeap::settle(const Unsettled& unsettled) {
    for (auto waiting = withheld_.begin(); waiting != withheld_.end();) {
        if (waiting->second.ticket >= unsettled.ticket) {
            ++waiting;
            continue;
        }
        Block* const block = waiting->first;
        waiting = withheld_.erase(waiting);
        come_back(*block);
    }
    for (auto stream = uses_.begin(); stream != uses_.end();) {
        std::deque<Use>& uses = stream->second;
        while (!uses.empty() && uses.front().ticket < unsettled.ticket) uses.pop_front();
        stream = uses.empty() ? uses_.erase(stream) : std::next(stream);
    }
}

void BlockHeap::collect() {
    for (auto stream = uses_.begin(); stream != uses_.end();) {
        std::deque<Use>& uses = stream->second;
        while (!uses.empty() && memory_.is_done(uses.front().mark->event())) {
            Block* const block = uses.front().block;
            uses.pop_front();
            const auto waiting = withheld_.find(block);
            if (--waiting->second.streams > 0) continue;
            withheld_.erase(waiting);
            come_back(*block);
        }
        stream = uses.empty() ? uses_.erase(stream) : std::next(stream);
    }
}

void BlockHeap::come_back(Block& block) {
    statistics_.finished(block.requested, block.bytes);
    block.marks.clear();
    block.state = BlockState::free;
    add_free(block);
}

const Extent* BlockHeap::extent_of(Address address) const {
    auto behind = extent_at_.upper_bound(address);
    if (behind == extent_at_.begin()) return nullptr;
    const Extent* extent = std::prev(behind)->second;
    return address < extent->end() ? extent : nullptr;
}

BlockHeap::StreamHeap& BlockHeap::heap_of(Stream stream) {
    if (stream != last_stream_ || last_heap_ == nullptr) {
        last_heap_ = &heaps_.try_emplace(stream, &nodes_).first->second;
        last_stream_ = stream;
    }
    return *last_heap_;
}

Block* BlockHeap::new_block() {
    if (unused_blocks_.empty()) return &blocks_.emplace_back();
    Block* block = unused_blocks_.back();
    unused_blocks_.pop_back();
    return block;
}

void BlockHeap::drop(Block& block) {
    block = Block();
    unused_blocks_.push_back(&block);
}

Block* BlockHeap::split(Block& block, std::size_t bytes) {
    Block* rest = new_block();
    rest->address = block.address + bytes;
    rest->bytes = block.bytes - bytes;
    rest->extent = block.extent;
    rest->before = &block;
    rest->behind = block.behind;
    if (rest->behind != nullptr) rest->behind->before = rest;
    rest->state = block.state;
    rest->stream = block.stream;
    rest->marks = block.marks;
    block.bytes = bytes;
    block.behind = rest;
    return rest;
}

void BlockHeap::absorb(Block& block) {
    Block* gone = block.behind;
    block.bytes += gone->bytes;
    block.behind = gone->behind;
    if (block.behind != nullptr) block.behind->before = &block;
    drop(*gone);
}

Block* BlockHeap::use(Block& block, std::size_t requested, Stream stream) {
    block.state = BlockState::used;
    block.stream = stream;
    block.marks.clear();
    block.requested = requested;
    block.is_handed_over = false;
    block.unknown_in = -1;
    used_.insert(block.address, &block);
    return &block;
}

void BlockHeap::index(Block& block) {
    const bool is_hole = block.state == BlockState::hole;
    if (is_in_arena(block)) {
        (is_hole ? arena_holes_ : arena_free_).emplace(block.address, &block);
    } else {
        StreamHeap& heap = heap_of(block.stream);
        (is_hole ? heap.holes : heap.free).insert(sized(block));
    }
}

void BlockHeap::unindex(Block& block) {
    const bool is_hole = block.state == BlockState::hole;
    if (is_in_arena(block)) {
        (is_hole ? arena_holes_ : arena_free_).erase(block.address);
    } else {
        StreamHeap& heap = heap_of(block.stream);
        (is_hole ? heap.holes : heap.free).erase(sized(block));
    }
}

bool BlockHeap::is_one_range(const Block& one, const Block& other) const {
    return one.state == BlockState::free && other.state == BlockState::free &&
           one.stream == other.stream && one.marks == other.marks;
}

Block* BlockHeap::add_free(Block& block) {
    const Block* latest = is_in_arena(block) ? nullptr : heap_of(block.stream).latest;
    Block* whole = &block;
    // The index of the arena has what only becomes longer.
    bool is_indexed = false;
    if (block.before != nullptr && block.before != latest && is_one_range(*block.before, block)) {
        whole = block.before;
        is_indexed = is_in_arena(*whole);
        if (!is_indexed) unindex(*whole);
        absorb(*whole);
    }
    if (whole->behind != nullptr && whole->behind != latest &&
        is_one_range(*whole, *whole->behind)) {
        unindex(*whole->behind);
        absorb(*whole);
    }
    if (!is_indexed) index(*whole);
    return whole;
}

void BlockHeap::add_latest(StreamHeap& heap) {
    if (heap.latest == nullptr) return;
    Block& block = *std::exchange(heap.latest, nullptr);
    add_free(block);
}

// A new hole becomes one with holes beside it.
void BlockHeap::add_hole(Block& block) {
    block.state = BlockState::hole;
    if (is_in_arena(block)) block.stream = kNoStream;
    Block* whole = &block;
    const auto absorb_hole = [&](Block& first) {
        if (!is_in_arena(first)) {
            Block*& tail = heap_of(first.stream).tail;
            if (tail == first.behind) tail = &first;
        }
        absorb(first);
    };
    if (whole->behind != nullptr && whole->behind->state == BlockState::hole) {
        unindex(*whole->behind);
        absorb_hole(*whole);
    }
    if (whole->before != nullptr && whole->before->state == BlockState::hole) {
        whole = whole->before;
        unindex(*whole);
        absorb_hole(*whole);
    }
    index(*whole);
}

// A hole with room for so many bytes and for frames that are larger than needed.
Block* BlockHeap::hole_for(StreamHeap& heap, Stream stream, std::size_t bytes) {
    const std::size_t wanted = bytes + kFramePages * page_bytes_;
    const auto fit = heap.holes.lower_bound({wanted, 0, nullptr});
    if (fit != heap.holes.end()) return fit->block;
    std::size_t range = std::max(wanted, round_up(kExtentBytes, page_bytes_));
    const auto reserve = [&] {
        try {
            return Extent::paged(memory_, range);
        } catch (const OutOfDeviceMemory&) {
            // Thousands of streams have taken nearly all addresses.
            range = wanted;
            return Extent::paged(memory_, range);
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

// Fills a hole from its beginning; it is what is left of it afterwards, null where nothing is.
void BlockHeap::map_at(Block*& hole, std::size_t bytes, std::size_t frame_bytes) {
    for (std::size_t done = 0; done < bytes;) {
        Block* const place = hole;
        const Frame frame = obtain(std::min(bytes - done, frame_bytes), place->bytes);
        try {
            place->extent->map(place->address, frame);
        } catch (...) {
            spare_.push_back(frame);
            spare_bytes_ += frame.bytes;
            throw;
        }
        unindex(*place);
        hole = place->bytes > frame.bytes ? split(*place, frame.bytes) : nullptr;
        if (hole != nullptr) index(*hole);
        place->state = BlockState::free;
        if (is_in_arena(*place)) arena_bytes_ += frame.bytes;
        add_free(*place);
        done += frame.bytes;
    }
}

// A spare frame that there is room for, or a new one.
Frame BlockHeap::obtain(std::size_t bytes, std::size_t room) {
    for (auto frame = spare_.rbegin(); frame != spare_.rend(); ++frame) {
        if (frame->bytes > room) continue;
        const Frame found = *frame;
        spare_.erase(std::next(frame).base());
        spare_bytes_ -= found.bytes;
        return found;
    }
    const Frame made{memory_.create_pages(bytes), bytes};
    reserved_bytes_ += bytes;
    return made;
}

void BlockHeap::add_plain(std::size_t bytes, Stream stream) {
    Extent& extent = add_extent(Extent::plain(memory_, bytes), BlockState::free, stream);
    reserved_bytes_ += bytes;
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

// See Note [Plans are hints].
void BlockHeap::make_wait(const Block& first, const Block& last, Stream stream) {
    StreamMarks marks;
    std::vector<Stream> unmarked;
    for (const Block* block = &first;; block = block->behind) {
        bool is_marked = block->stream == stream || block->stream == kNoStream;
        for (const auto& mark : block->marks) {
            if (mark->stream() == block->stream) is_marked = true;
            if (mark->stream() != stream) marks.push_back(mark);
        }
        if (!is_marked) unmarked.push_back(block->stream);
        if (block == &last) break;
    }
    // Blocks side by side often have the same history.
    std::ranges::sort(unmarked);
    for (const auto& other :
         std::ranges::subrange(unmarked.begin(), std::ranges::unique(unmarked).begin())) {
        marks.push_back(std::make_shared<StreamMark>(memory_, other));
    }
    std::ranges::sort(marks);
    marks.erase(std::ranges::unique(marks).begin(), marks.end());
    for (const auto& mark : marks) memory_.make_wait(stream, mark->event());
}

void BlockHeap::check() const {
    const auto require = [](bool holds, const char* rule) {
        if (!holds) throw std::logic_error(rule);
    };
    std::size_t mapped = 0, used = 0, free = 0, holes = 0, leaving = 0;
    for (const Extent& extent : extents_) {
        Address at = extent.begin();
        for (const Block* block = first_.at(&extent); block != nullptr; block = block->behind) {
            require(block->extent == &extent && block->address == at, "blocks lie side by side");
            require(block->bytes > 0, "a block has bytes");
            at = block->end();
            if (block->behind != nullptr) {
                require(block->behind->before == block, "neighbours know each other");
            }
            const bool is_latest = std::ranges::any_of(
                heaps_, [&](const auto& heap) { return heap.second.latest == block; });
            switch (block->state) {
                case BlockState::used:
                    require(used_.find(block->address) == block, "a block in use is found");
                    ++used;
                    break;
                case BlockState::free:
                    ++free;
                    if (is_latest) break;
                    if (is_in_arena(*block)) {
                        const auto found = arena_free_.find(block->address);
                        require(found != arena_free_.end() && found->second == block,
                                "a free block of the arena is found by its address");
                    } else {
                        require(block->marks.empty(), "only blocks of the arena have marks");
                        require(heaps_.at(block->stream)
                                    .free.contains(sized(const_cast<Block&>(*block))),
                                "a free block is found by its size");
                    }
                    if (block->behind != nullptr && is_one_range(*block, *block->behind)) {
                        require(std::ranges::any_of(heaps_,
                                                    [&](const auto& heap) {
                                                        return heap.second.latest == block->behind;
                                                    }),
                                "no two free ranges touch");
                    }
                    break;
                case BlockState::withheld:
                    require(withheld_.contains(const_cast<Block*>(block)),
                            "a withheld block waits for somebody");
                    break;
                case BlockState::leaving:
                    ++leaving;
                    break;
                case BlockState::hole:
                    require(!extent.is_plain(), "a plain extent has no holes");
                    require(extent.frames_within(block->address, block->end()).empty(),
                            "nothing is mapped in a hole");
                    if (is_in_arena(*block)) {
                        require(arena_holes_.contains(block->address), "a hole is found");
                    } else {
                        require(heaps_.at(block->stream)
                                    .holes.contains(sized(const_cast<Block&>(*block))),
                                "a hole is found");
                    }
                    ++holes;
                    continue;
            }
            if (!extent.is_plain()) {
                auto frame = extent.frames().upper_bound(block->address);
                require(frame != extent.frames().begin(), "memory is mapped behind a block");
                Address covered = std::prev(frame)->first + std::prev(frame)->second.bytes;
                for (; covered < block->end(); ++frame) {
                    require(frame != extent.frames().end() && frame->first == covered,
                            "memory is mapped behind a block");
                    covered += frame->second.bytes;
                }
            }
        }
        require(at == extent.end(), "blocks cover their extent");
        if (extent.is_plain()) mapped += extent.bytes();
        for (const auto& [address, frame] : extent.frames()) mapped += frame.bytes;
    }
    require(used == used_.size(), "as many blocks are in use as are found");
    require(mapped + spare_bytes_ == reserved_bytes_, "reserved is what is mapped or spare");
    std::size_t indexed = arena_free_.size(), indexed_holes = arena_holes_.size();
    for (const auto& [stream, heap] : heaps_) {
        indexed += heap.free.size() + (heap.latest != nullptr ? 1 : 0);
        indexed_holes += heap.holes.size();
        require(heap.tail == nullptr || heap.tail->state == BlockState::hole,
                "a heap grows at a hole");
    }
    require(indexed == free && indexed_holes == holes,
            "the indexes hold what is free, and holes, and nothing else");
}

}  // namespace gapless::runtime
