#include "allocator/block_heap.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace gapless::runtime {

namespace {

// Ticket of a withheld block whose streams are not marked yet.
constexpr std::int64_t kNoTicket = std::numeric_limits<std::int64_t>::max();

void add_stream(std::vector<Stream>& streams, Stream stream) {
    if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
}

}  // namespace

BlockHeap::BlockHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics,
                     ShadowAllocator& shadow)
    : memory_(memory),
      statistics_(statistics),
      shadow_(shadow),
      is_plain_(is_plain),
      page_bytes_(memory.page_bytes()),
      arena_free_(&nodes_),
      arena_holes_(&nodes_) {}

Block* BlockHeap::place(std::size_t requested, Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    const bool is_own = is_whole(bytes);
    Block* found = nullptr;
    for (const bool is_other : {false, true}) {
        StreamHeap& heap = heap_of(stream, is_own != is_other);
        if (heap.latest != nullptr && heap.latest->bytes == bytes) {
            return use(*std::exchange(heap.latest, nullptr), requested, stream);
        }
        add_latest(heap);
        const auto fit = heap.free.lower_bound({bytes, 0, nullptr});
        if (fit == heap.free.end()) continue;
        if (found == nullptr || fit->bytes < found->bytes) found = fit->block;
    }
    if (found == nullptr) return nullptr;
    unindex(*found);
    if (found->bytes > bytes) index(*split(*found, bytes));
    return use(*found, requested, stream);
}

Block* BlockHeap::place_in_open_arena(std::size_t requested, Stream stream) {
    if (arena_ == nullptr || !is_arena_open_) return nullptr;
    const Sized wanted{round_up(requested, kBlockAlignment), 0, nullptr};
    for (const Stream owner : {stream, kNoStream}) {
        const BySize& ranges = heap_of(owner, false).in_arena;
        const auto fit = ranges.lower_bound(wanted);
        if (fit == ranges.end()) continue;
        const auto offset = static_cast<std::int64_t>(fit->address - arena_->begin());
        return place_at(offset, requested, stream);
    }
    return nullptr;
}

void BlockHeap::open_arena() {
    if (std::exchange(is_arena_open_, true)) return;
    for (const auto& [address, block] : arena_free_) {
        heap_of(*block).in_arena.insert(sized(*block));
    }
}

void BlockHeap::shut_arena() {
    is_arena_open_ = false;
    for (auto& [stream, heap] : heaps_) heap.in_arena.clear();
}

Block* BlockHeap::place_at(std::int64_t offset, std::size_t requested, Stream stream) {
    if (arena_ == nullptr) return nullptr;
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    const Address address = arena_->begin() + static_cast<Address>(offset);
    auto entry = arena_free_.upper_bound(address);
    if (entry == arena_free_.begin()) return nullptr;
    Block* const first = (--entry)->block;
    if (first->end() <= address) return nullptr;
    Block* last = first;
    while (last->end() < address + bytes) {
        last = last->behind;
        if (last == nullptr || last->state != BlockState::free) return nullptr;
    }
    std::vector<Block*> wanted;
    for (Block* block = first; wanted.empty() || wanted.back() != last; block = block->behind) {
        wanted.push_back(block);
    }
    try {
        make_wait(wanted, stream);
    } catch (const StreamIsCaptured&) {
        return nullptr;
    } catch (const StreamIsGone&) {
        return nullptr;
    }
    Block* found = first;
    if (first->address == address && first->bytes > bytes && !is_arena_open_) {
        return use(*split_front(*first, bytes, entry), requested, stream);
    }
    unindex(*first);
    if (first->address < address) {
        found = split(*first, address - first->address);
        index(*first);
        if (last == first) last = found;
    }
    if (last != found) unindex(*last);
    if (last->end() > address + bytes) index(*split(*last, address + bytes - last->address));
    while (found->bytes < bytes) {
        if (found->behind != last) unindex(*found->behind);
        absorb(*found);
    }
    return use(*found, requested, stream);
}

Block* BlockHeap::place_beside(Address beside, std::int64_t offset, std::size_t requested,
                               Stream stream) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    const Address address = beside + static_cast<Address>(offset);
    Block* block = used_.find(beside);
    if (block == nullptr) return nullptr;
    add_latest(heap_of(stream, block->extent->is_whole()));
    while (block != nullptr && block->address > address) block = block->before;
    while (block != nullptr && block->end() <= address) block = block->behind;
    const bool is_free = block != nullptr && block->state == BlockState::free &&
                         block->stream == stream && !is_in_arena(*block);
    if (!is_free || block->end() < address + bytes) return nullptr;
    unindex(*block);
    if (block->address < address) {
        Block* const rest = split(*block, address - block->address);
        index(*block);
        block = rest;
    }
    if (block->bytes > bytes) index(*split(*block, bytes));
    return use(*block, requested, stream);
}

void BlockHeap::free(Block& block) {
    used_.erase(block.address);
    covered_.clear();
    statistics_.freed(block.requested, block.bytes);
    if (is_paused(block)) {
        block.used_on.clear();
        return come_back(block);
    }
    if (!is_in_arena(block)) {
        if (block.used_on.empty()) {
            StreamHeap& heap = heap_of(block);
            add_latest(heap);
            finished(block);
            block.state = BlockState::free;
            heap.latest = &block;
            return;
        }
    } else if (block.is_handed_over) {
        for (const Stream stream : known_streams()) add_stream(block.used_on, stream);
        add_stream(block.used_on, block.stream);
    }
    std::vector<Stream> streams = std::exchange(block.used_on, {});
    StreamMarks marks;
    try {
        marks = marks_of(streams);
    } catch (const StreamIsCaptured&) {
        block.state = BlockState::withheld;
        withheld_[&block] = {streams.size(), kNoTicket};
        unmarked_.push_back({&block, std::move(streams)});
        return;
    } catch (const StreamIsGone&) {
        return withhold(block, {});
    } catch (...) {
        withhold(block, {});
        throw;
    }
    if (!is_in_arena(block)) return withhold(block, marks);
    finished(block);
    block.marks = std::move(marks);
    block.state = BlockState::free;
    add_free(block);
}

std::shared_ptr<StreamMark> BlockHeap::mark(Stream stream) {
    try {
        return std::make_shared<StreamMark>(memory_, stream);
    } catch (const StreamIsGone&) {
        gone_.insert(stream);
        forget(stream);
        throw;
    }
}

// See Note [Streams that nobody told of].
std::vector<Stream> BlockHeap::known_streams() {
    std::vector<Stream> known = owners_;
    std::erase_if(guests_, [](const auto& guest) { return guest.second.expired(); });
    for (const auto& [stream, mark] : guests_) add_stream(known, stream);
    for (const Unmarked& freed : unmarked_) {
        for (const Stream stream : freed.streams) add_stream(known, stream);
    }
    return known;
}

void BlockHeap::forget(Stream stream) {
    std::erase(owners_, stream);
    guests_.erase(stream);
    last_owner_ = kNoStream;
}

StreamMarks BlockHeap::marks_of(const std::vector<Stream>& streams) {
    StreamMarks marks;
    for (const Stream stream : streams) {
        marks.push_back(mark(stream));
        if (std::ranges::find(owners_, stream) == owners_.end()) guests_[stream] = marks.back();
    }
    return marks;
}

// Withholds a block until all marks are done; without marks, until the device has been waited for.
void BlockHeap::withhold(Block& block, const StreamMarks& marks) {
    block.state = BlockState::withheld;
    withheld_[&block] = {marks.size(), next_ticket_};
    for (const auto& mark : marks) uses_[mark->stream()].push_back({mark, &block, next_ticket_});
    ++next_ticket_;
}

// See Note [Streams that are captured].
void BlockHeap::mark_withheld() {
    for (auto freed = unmarked_.begin(); freed != unmarked_.end();) {
        StreamMarks marks;
        try {
            marks = marks_of(freed->streams);
        } catch (const StreamIsCaptured&) {
            ++freed;
            continue;
        } catch (const DeviceCallError&) {
            // Handled as a free that the device refused: the block waits for the whole device.
        }
        withhold(*freed->block, marks);
        freed = unmarked_.erase(freed);
    }
}

void BlockHeap::use_on(Block& block, Stream stream) {
    if (stream != block.stream) add_stream(block.used_on, stream);
}

BlockHeap::Unsettled BlockHeap::unsettled() {
    mark_withheld();
    Unsettled unsettled{next_ticket_, {}, gone_};
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
    disown(unsettled.gone);
}

// The destroyed streams' work in the arena is done. Their ranges lose their owner but keep the
// marks of other streams.
void BlockHeap::disown(const std::set<Stream>& gone) {
    std::vector<Block*> ranges;
    for (const auto& [address, block] : arena_free_) {
        // Skip a handle that was used again since: it may name a new stream.
        if (gone.contains(block->stream) && gone_.contains(block->stream)) ranges.push_back(block);
    }
    for (const Stream stream : gone) gone_.erase(stream);
    for (Block* const block : ranges) {
        unindex(*block);
        block->stream = kNoStream;
        add_free(*block);
    }
}

void BlockHeap::collect() {
    mark_withheld();
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
    finished(block);
    block.marks.clear();
    block.state = is_paused(block) ? BlockState::paused : BlockState::free;
    if (block.state == BlockState::free) add_free(block);
}

const Extent* BlockHeap::extent_of(Address address) const {
    auto behind = extent_at_.upper_bound(address);
    if (behind == extent_at_.begin()) return nullptr;
    const Extent* extent = std::prev(behind)->second;
    return address < extent->end() ? extent : nullptr;
}

BlockHeap::StreamHeap& BlockHeap::heap_of(Stream stream, bool is_whole) {
    if (stream != last_stream_) last_heaps_ = {};
    last_stream_ = stream;
    StreamHeap*& heap = last_heaps_[is_whole ? 1 : 0];
    if (heap == nullptr) heap = &heaps_.try_emplace({stream, is_whole}, &nodes_).first->second;
    return *heap;
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
    rest->generation = block.generation;
    block.bytes = bytes;
    block.behind = rest;
    return rest;
}

Block* BlockHeap::split_front(Block& block, std::size_t bytes, ByAddress::iterator entry) {
    Block* front = new_block();
    front->address = block.address;
    front->bytes = bytes;
    front->extent = block.extent;
    front->before = block.before;
    front->behind = &block;
    (front->before != nullptr ? front->before->behind : first_.at(block.extent)) = front;
    front->state = block.state;
    front->stream = block.stream;
    block.before = front;
    block.bytes -= bytes;
    entry->address = block.address += bytes;
    return front;
}

void BlockHeap::absorb_before(Block& block) {
    Block* gone = block.before;
    arena_free_.find(block.address)->address = gone->address;
    block.address = gone->address;
    block.bytes += gone->bytes;
    block.before = gone->before;
    (block.before != nullptr ? block.before->behind : first_.at(block.extent)) = &block;
    drop(*gone);
}

void BlockHeap::absorb(Block& block) {
    Block* gone = block.behind;
    block.bytes += gone->bytes;
    block.behind = gone->behind;
    if (block.behind != nullptr) block.behind->before = &block;
    drop(*gone);
}

Block* BlockHeap::use(Block& block, std::size_t requested, Stream stream) {
    if (!gone_.empty()) gone_.erase(stream);
    if (stream != last_owner_) add_stream(owners_, last_owner_ = stream);
    block.state = BlockState::used;
    block.stream = stream;
    block.marks.clear();
    block.requested = requested;
    block.is_handed_over = false;
    used_.insert(block.address, &block);
    return &block;
}

void BlockHeap::index(Block& block) {
    const bool is_hole = block.state == BlockState::hole;
    if (is_in_arena(block)) {
        (is_hole ? arena_holes_ : arena_free_).insert({block.address, &block});
        if (is_arena_open_ && !is_hole) heap_of(block).in_arena.insert(sized(block));
    } else {
        StreamHeap& heap = heap_of(block);
        (is_hole ? heap.holes : heap.free).insert(sized(block));
    }
}

void BlockHeap::unindex(Block& block) {
    const bool is_hole = block.state == BlockState::hole;
    if (is_in_arena(block)) {
        ByAddress& ranges = is_hole ? arena_holes_ : arena_free_;
        ranges.erase(ranges.find(block.address));
        if (is_arena_open_ && !is_hole) heap_of(block).in_arena.erase(sized(block));
    } else {
        StreamHeap& heap = heap_of(block);
        (is_hole ? heap.holes : heap.free).erase(sized(block));
    }
}

// Returns true if the marks of a free block cover all of its work.
bool BlockHeap::is_marked(const Block& block) const {
    return block.stream == kNoStream || std::ranges::any_of(block.marks, [&](const auto& mark) {
               return mark->stream() == block.stream;
           });
}

bool BlockHeap::is_one_range(const Block& one, const Block& other) const {
    return one.state == BlockState::free && other.state == BlockState::free &&
           one.stream == other.stream && one.marks == other.marks;
}

Block* BlockHeap::add_free(Block& block) {
    const Block* latest = is_in_arena(block) ? nullptr : heap_of(block).latest;
    Block* whole = &block;
    // A free block of the arena that only grows at its end keeps its index entry by address.
    const bool is_by_address = is_in_arena(block) && !is_arena_open_;
    bool is_indexed = false;
    if (block.before != nullptr && block.before != latest && is_one_range(*block.before, block)) {
        whole = block.before;
        is_indexed = is_by_address;
        if (!is_indexed) unindex(*whole);
        absorb(*whole);
    }
    if (whole->behind != nullptr && whole->behind != latest &&
        is_one_range(*whole, *whole->behind)) {
        if (is_by_address && !is_indexed) {
            Block* const behind = whole->behind;
            absorb_before(*behind);
            return behind;
        }
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

// Makes a block a hole and merges it with adjacent holes.
void BlockHeap::add_hole(Block& block) {
    if (block.extent->is_closed()) {
        block.state = BlockState::closed;
        return;
    }
    block.state = BlockState::hole;
    if (is_in_arena(block)) block.stream = kNoStream;
    Block* whole = &block;
    const auto absorb_hole = [&](Block& first) {
        if (!is_in_arena(first)) {
            Block*& tail = heap_of(first).tail;
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

// See Note [Plans are hints].
void BlockHeap::make_wait(std::span<Block* const> blocks, Stream stream) {
    StreamMarks marks;
    std::vector<Stream> unmarked;
    for (const Block* block : blocks) {
        if (block->stream != stream && !is_marked(*block)) add_stream(unmarked, block->stream);
        for (const auto& mark : block->marks) {
            if (mark->stream() != stream) marks.push_back(mark);
        }
    }
    // One wait for all known streams serves all blocks that were freed before it.
    if (std::ranges::find(covered_, stream) != covered_.end()) {
        std::erase_if(unmarked, [&](Stream owner) {
            return std::ranges::find(owners_, owner) != owners_.end();
        });
    }
    if (!unmarked.empty()) {
        for (const Stream other : known_streams()) add_stream(unmarked, other);
        std::erase(unmarked, stream);
        for (const Stream other : unmarked) marks.push_back(mark(other));
    }
    // A wait for a later mark may make those for earlier ones needless: see Note [Waits that are
    // known].
    std::ranges::sort(marks, std::greater(), [](const auto& mark) { return mark->event(); });
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    if (!marks.empty() && memory_.is_captured(stream)) throw StreamIsCaptured();
    try {
        for (const auto& mark : marks) memory_.make_wait(stream, mark->event());
    } catch (const StreamIsGone&) {
        gone_.insert(stream);
        forget(stream);
        throw;
    }
    if (!unmarked.empty()) covered_.push_back(stream);
}

// A withheld block that lies outside of the arena goes back to its own stream at once: that stream
// waits, on the device, for the streams that may still use the block.
void BlockHeap::free_withheld() {
    mark_withheld();
    std::map<Stream, StreamMarks> last;  // by waiting stream: one mark for each awaited stream
    std::map<Block*, std::size_t> marked;
    for (const auto& [awaited, uses] : uses_) {
        for (const Use& use : uses) ++marked[use.block];
    }
    const auto is_freed = [&](const Use& use) {
        const auto found = marked.find(use.block);
        return found != marked.end() && found->second == withheld_.at(use.block).streams;
    };
    for (const auto& [awaited, uses] : uses_) {
        for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
            if (!is_freed(*use)) continue;
            StreamMarks& marks = last[use->block->stream];
            const bool is_later = !marks.empty() && marks.back()->stream() == awaited;
            if (!is_later) marks.push_back(use->mark);
        }
    }
    for (const auto& [stream, marks] : last) {
        if (memory_.is_captured(stream)) return;
        for (const auto& mark : marks) {
            if (mark->stream() != stream) memory_.make_wait(stream, mark->event());
        }
    }
    for (auto& [awaited, uses] : uses_) std::erase_if(uses, is_freed);
    std::erase_if(uses_, [](const auto& entry) { return entry.second.empty(); });
    for (const auto& [block, marks] : marked) {
        if (marks != withheld_.at(block).streams) continue;
        withheld_.erase(block);
        come_back(*block);
    }
}

}  // namespace gapless::runtime
