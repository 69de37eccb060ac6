// How idle frames move to another address: see Note [Two mappings of one frame].
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "allocator/block_heap.h"

namespace gapless::runtime {

namespace {

// Old mappings have at most 1/4 as many addresses as there is memory. Of 1, 1/4, 1/16 and 1/1000,
// this one reserved least on eight recordings, by up to 1.5 % in one of them.
constexpr std::size_t kShareOfOldMappings = 4;

}  // namespace

BlockHeap::Range BlockHeap::arena_range(std::size_t offset, std::size_t bytes) const {
    if (arena_ == nullptr) return {};
    return {arena_->begin() + offset, arena_->begin() + offset + bytes};
}

void BlockHeap::gather(std::size_t requested, Stream stream, std::size_t arena_kept) {
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    StreamHeap& heap = heap_of(stream, is_whole(bytes));
    Gap gap = gap_for(heap, bytes);
    const Block* const tail = heap.tail;
    // The range that grows at the tail must not lose frames at its other end.
    if (gap.is_at_tail() && tail != nullptr && tail->bytes >= gap.missing &&
        free_before(tail) > 0) {
        gap.range = {tail->before->address, tail->before->end()};
    }
    std::vector<Range> all_kept{arena_range(0, arena_kept)};
    if (!gap.is_at_tail() || gap.range.end > gap.range.begin) all_kept.push_back(gap.range);
    gather_frames(gap.missing - std::min(gap.missing, spare_bytes()), std::move(all_kept));
    try {
        make_wait(gathered_, stream);
    } catch (...) {
        put_back();
        throw;
    }
}

void BlockHeap::gather_for_arena(std::size_t offset, std::size_t bytes, std::size_t arena_kept) {
    reserve_arena(offset + bytes);
    const std::size_t missing = arena_missing(offset, bytes);
    gather_frames(missing - std::min(missing, spare_bytes()),
                  {arena_range(0, arena_kept), arena_range(offset, bytes)});
}

void BlockHeap::gather_frames(std::size_t bytes, std::vector<Range> kept) {
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    if (is_plain_ || bytes == 0 || is_capturing()) return;
    for (const Idle& idle : idle_ranges(std::move(kept))) {
        if (gathered_bytes_ >= bytes) return;
        const auto [first, last] =
            idle.first->extent->whole_frames(idle.begin, idle.end, bytes - gathered_bytes_);
        gather_rows(idle.first, first, last);
    }
}

// Gathers the idle frames between two addresses. `block` is free and begins at the first frame or
// before it. Returns the last gathered block.
Block* BlockHeap::gather_rows(Block* block, Address first, Address behind) {
    while (first < behind) {
        while (block->end() <= first) block = block->behind;
        // Frames within one block have the same users. Several blocks may share a frame.
        const std::size_t whole = (block->end() - first) / page_bytes_ * page_bytes_;
        const Address end = whole == 0 ? first + page_bytes_ : std::min(first + whole, behind);
        block = gather_row(block, first, end);
        first = end;
    }
    return block;
}

// Makes a block of its own of a row of idle frames, which begins in `block`.
Block* BlockHeap::gather_row(Block* block, Address begin, Address end) {
    const auto [stream, marks] = users_of(*block, end);
    unindex(*block);
    if (block->address < begin) {
        Block* const rest = split(*block, begin - block->address);
        index(*block);
        block = rest;
    }
    if (block->end() > end) index(*split(*block, end - begin));
    while (block->end() < end) {
        Block& next = *block->behind;
        unindex(next);
        if (next.end() > end) index(*split(next, end - next.address));
        absorb(*block);
    }
    block->stream = stream;
    block->marks = marks;
    block->state = BlockState::leaving;
    memory_.hide(begin, end - begin);
    gathered_.push_back(block);
    gathered_bytes_ += end - begin;
    return block;
}

// The last users of adjacent free blocks, from `first` to the one that contains the byte before
// `end`: the only stream and its marks, or marks of all users.
std::pair<Stream, StreamMarks> BlockHeap::users_of(const Block& first, Address end) {
    StreamMarks marks;
    std::vector<Stream> unmarked;
    bool is_one = true;
    for (const Block* block = &first;; block = block->behind) {
        is_one = is_one && block->stream == first.stream && block->marks == first.marks;
        marks.insert(marks.end(), block->marks.begin(), block->marks.end());
        if (!is_marked(*block)) unmarked.push_back(block->stream);
        if (block->end() >= end) break;
    }
    if (is_one) return {first.stream, first.marks};
    if (!unmarked.empty()) {
        const std::vector<Stream> known = known_streams();
        unmarked.insert(unmarked.end(), known.begin(), known.end());
        std::ranges::sort(unmarked);
        unmarked.erase(std::unique(unmarked.begin(), unmarked.end()), unmarked.end());
        const StreamMarks now = marks_of(unmarked);
        marks.insert(marks.end(), now.begin(), now.end());
    }
    std::ranges::sort(marks);
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    return {kNoStream, std::move(marks)};
}

void BlockHeap::put_back() {
    gathered_bytes_ = 0;
    for (Block* const block : std::exchange(gathered_, {})) {
        memory_.show(block->address, block->bytes);
        block->state = BlockState::free;
        add_free(*block);
    }
}

// The frames of a block are used elsewhere from now on.
void BlockHeap::vacate(Block& block) {
    loses_memory(block);
    block.state = BlockState::vacated;
    block.generation = generation_;
    block.marks.clear();
    vacated_bytes_ += block.bytes;
    moved_bytes_ += block.bytes;
    if (is_in_arena(block)) arena_bytes_ -= block.bytes;
    const auto is_alike = [&](const Block* other) {
        return other != nullptr && other->state == BlockState::vacated &&
               other->generation == generation_;
    };
    if (is_alike(block.behind)) {
        vacated_.erase(block.behind->address);
        absorb(block);
    }
    if (is_alike(block.before)) {
        absorb(*block.before);
    } else {
        vacated_.emplace(block.address, &block);
    }
}

// A block without memory, in no list, becomes free: it has got frames, those of `source` if there
// is one.
void BlockHeap::arrive(Block& block, const Block* source) {
    for (Address at = block.address; at < block.end(); at += page_bytes_) {
        current_[block.extent->frame_at(at)] = at;
    }
    block.state = BlockState::free;
    if (is_in_arena(block)) {
        block.stream = source == nullptr ? kNoStream : source->stream;
        block.marks = source == nullptr ? StreamMarks() : source->marks;
        arena_bytes_ += block.bytes;
    }
    gets_memory(block);
    add_free(block);
}

bool BlockHeap::recall(std::size_t offset, std::size_t bytes) {
    if (arena_ == nullptr || vacated_.empty() || is_capturing()) return false;
    const Address begin = arena_->begin() + offset;
    const Range range{begin, begin + bytes};
    auto first = vacated_.upper_bound(range.begin);
    if (first != vacated_.begin() && std::prev(first)->second->end() > range.begin) --first;
    if (first == vacated_.end() || first->first >= range.end) return false;
    Recall found;
    is_place_missing_ =
        find_recall(found, *first->second, range, idle_by_address(0)) || !recall(found, kNoStream);
    return !is_place_missing_;
}

void BlockHeap::recall_arena() {
    if (arena_ == nullptr || vacated_.empty() || is_capturing()) return;
    is_place_missing_ = false;
    const std::vector<Idle> idle = idle_by_address(0);
    Recall found;
    const auto end = vacated_.lower_bound(arena_->end());
    for (auto entry = vacated_.lower_bound(arena_->begin()); entry != end; ++entry) {
        const Block& block = *entry->second;
        for (Address place = block.address; place < block.end(); place += page_bytes_) {
            Recall one;
            if (find_recall(one, block, {place, place + page_bytes_}, idle)) {
                is_place_missing_ = true;
            } else {
                found.push_back(one.front());
            }
        }
    }
    // A frame may have several old mappings in the arena; it goes to the first, and the places of
    // the others need other frames.
    std::ranges::sort(found, {}, [](const Recalled& one) { return std::pair(one.now, one.place); });
    const auto is_same = [](const Recalled& one, const Recalled& other) {
        return one.now == other.now;
    };
    const auto others = std::unique(found.begin(), found.end(), is_same);
    if (others != found.end()) is_place_missing_ = true;
    found.erase(others, found.end());
    if (!recall(found, kNoStream)) is_place_missing_ = true;
}

// Candidates are the stretches of free and vacated blocks of the stream, smallest first.
bool BlockHeap::recall_for(std::size_t requested, Stream stream, std::size_t arena_kept) {
    if (vacated_.empty() || is_capturing()) return false;
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    for (auto& [owner, heap] : heaps_) add_latest(heap);
    // In a former arena the neighbours of a block may be another stream's.
    const auto may_serve = [&](const Block* block) {
        return block != nullptr && block->stream == stream &&
               (block->state == BlockState::free || block->state == BlockState::vacated);
    };
    std::vector<std::pair<std::size_t, Block*>> stretches;
    for (const auto& [address, vacated] : vacated_) {
        if (is_in_arena(*vacated) || vacated->stream != stream) continue;
        Block* first = vacated;
        if (may_serve(first->before) && first->before->state == BlockState::free) {
            first = first->before;
        }
        // An earlier vacated block is in the same stretch, which was examined already.
        if (may_serve(first->before)) continue;
        const Block* last = vacated;
        while (may_serve(last->behind)) last = last->behind;
        const std::size_t length = last->end() - first->address;
        if (length >= bytes) stretches.emplace_back(length, first);
    }
    if (stretches.empty()) return false;
    const std::vector<Idle> idle = idle_by_address(arena_kept);
    std::ranges::sort(stretches, {}, [](const auto& stretch) {
        return std::pair(stretch.first, stretch.second->address);
    });
    for (const auto& [length, first] : stretches) {
        Block* block = first;
        const Address end = first->address + length;
        for (Address begin = first->address; begin + bytes <= end;) {
            while (block->end() <= begin) block = block->behind;
            Recall found;
            const Range range{begin, begin + bytes};
            const std::optional<Address> missing = find_recall(found, *block, range, idle);
            if (!missing) return recall(found, stream);
            begin = *missing;
        }
    }
    return false;
}

// Finds the frames of the vacated blocks in a range, from `block` on. If a frame is in use or would
// be needed twice, returns the end of its old mapping.
std::optional<Address> BlockHeap::find_recall(Recall& found, const Block& first, const Range& range,
                                              const std::vector<Idle>& idle) const {
    std::set<Pages> seen;
    for (const Block* block = &first; block != nullptr && block->address < range.end;
         block = block->behind) {
        if (block->state != BlockState::vacated) continue;
        const Address from = std::max(range.begin, block->address);
        const Address first_place = from - (from - block->address) % page_bytes_;
        const Address end = std::min(range.end, block->end());
        for (Address place = first_place; place < end; place += page_bytes_) {
            const Pages frame = block->extent->frame_at(place);
            const Address now = current_.at(frame);
            const auto next = std::ranges::upper_bound(idle, now, {}, &Idle::begin);
            const bool is_idle = next != idle.begin() && now + page_bytes_ <= std::prev(next)->end;
            const bool is_inside = now < range.end && range.begin < now + page_bytes_;
            if (!is_idle || is_inside || !seen.insert(frame).second) return place + page_bytes_;
            Block* const owner = std::prev(next)->first;
            const bool is_next = place != first_place && found.back().idle == owner &&
                                 found.back().now + found.back().bytes == now;
            if (is_next) {
                found.back().bytes += page_bytes_;
            } else {
                found.push_back({now, owner, place, page_bytes_});
            }
        }
    }
    return std::nullopt;
}

// Uses old mappings again. Outside of the arena they are of `stream`, which waits for the last
// users of the frames.
bool BlockHeap::recall(Recall& found, Stream stream) {
    std::ranges::sort(found, {}, &Recalled::now);
    try {
        const Block* first = nullptr;
        Block* block = nullptr;
        for (const Recalled& each : found) {
            if (each.idle != first) block = each.idle;
            first = each.idle;
            block = gather_rows(block, each.now, each.now + each.bytes);
        }
        if (stream != kNoStream) make_wait(gathered_, stream);
    } catch (const DeviceCallError&) {
        put_back();
        return false;
    }
    auto source = gathered_.begin();
    for (const Recalled& each : found) {
        memory_.show(each.place, each.bytes);
        for (Address now = each.now; now < each.now + each.bytes; now = (*source++)->end()) {
            arrive(*cut_vacated(each.place + (now - each.now), (*source)->bytes), *source);
        }
    }
    gathered_bytes_ = 0;
    for (Block* const left : std::exchange(gathered_, {})) vacate(*left);
    return true;
}

// Makes a block of its own of frames in a vacated block, and takes it out of the list.
Block* BlockHeap::cut_vacated(Address begin, std::size_t bytes) {
    const auto entry = std::prev(vacated_.upper_bound(begin));
    Block* block = entry->second;
    vacated_.erase(entry);
    if (block->address < begin) {
        vacated_.emplace(block->address, block);
        block = split(*block, begin - block->address);
    }
    if (block->bytes > bytes) {
        Block* const rest = split(*block, bytes);
        vacated_.emplace(rest->address, rest);
    }
    vacated_bytes_ -= bytes;
    return block;
}

std::vector<BlockHeap::Idle> BlockHeap::idle_by_address(std::size_t arena_kept) {
    for (auto& [stream, heap] : heaps_) add_latest(heap);
    std::vector<Idle> idle = idle_ranges({arena_range(0, arena_kept)});
    std::ranges::sort(idle, {}, &Idle::begin);
    return idle;
}

void BlockHeap::retire(std::size_t bytes, std::size_t arena_kept) {
    gather_frames(bytes, {arena_range(0, arena_kept)});
    gathered_bytes_ = 0;
    for (Block* const block : std::exchange(gathered_, {})) {
        block->state = BlockState::retired;
        block->generation = generation_;
        retired_bytes_ += block->bytes;
        retired_.push_back(block);
    }
}

// The last block that is taken may be split. Its rest stays retired, and keeps its generation.
void BlockHeap::reuse_retired(std::size_t bytes, Stream stream) {
    while (bytes > 0 && !retired_.empty()) {
        auto found = retired_.end();
        for (auto entry = retired_.begin(); entry != retired_.end(); ++entry) {
            const Block& block = **entry;
            if (block.stream != stream || is_in_arena(block) || block.bytes < bytes) continue;
            if (found == retired_.end() || block.bytes < (*found)->bytes) found = entry;
        }
        if (found == retired_.end()) --found;
        Block* const block = *found;
        const std::size_t part = round_up(bytes, page_bytes_);
        if (block->bytes > part) {
            *found = split(*block, part);
        } else {
            retired_.erase(found);
        }
        retired_bytes_ -= block->bytes;
        bytes -= std::min(bytes, block->bytes);
        memory_.show(block->address, block->bytes);
        block->state = BlockState::free;
        add_free(*block);
    }
}

// See Note [Two mappings of one frame].
void BlockHeap::unmap_old() {
    const bool is_wanted = vacated_bytes_ > reserved_bytes_ / kShareOfOldMappings ||
                           !retired_.empty() || is_place_missing_;
    try {
        // The work of a destroyed stream cannot be marked.
        if (closed_ < 0 && is_wanted && gone_.empty() && !is_capturing()) {
            closing_marks_ = marks_of(known_streams());
            closed_ = generation_++;
            is_place_missing_ = false;
        }
        if (closed_ < 0) return;
        for (const auto& mark : closing_marks_) {
            if (!memory_.is_done(mark->event())) return;
        }
        unmap_old(closed_);
    } catch (const DeviceCallError&) {
        // The device refuses for now.
    }
}

// Unmaps the old mappings of all generations up to one.
void BlockHeap::unmap_old(std::int64_t generation) {
    if (closed_ <= generation) {
        closed_ = -1;
        closing_marks_.clear();
    }
    for (auto entry = vacated_.begin(); entry != vacated_.end();) {
        Block* const block = entry->second;
        if (block->generation > generation) {
            ++entry;
            continue;
        }
        auto behind = std::next(entry);
        Address end = block->end();
        for (; behind != vacated_.end() && behind->first == end &&
               behind->second->extent == block->extent && behind->second->generation <= generation;
             ++behind) {
            end = behind->second->end();
        }
        block->extent->unmap(block->address, end);
        entry = vacated_.erase(entry, behind);
        vacated_bytes_ -= end - block->address;
        while (block->end() < end) absorb(*block);
        add_hole(*block);
    }
    while (!retired_.empty() && retired_.front()->generation <= generation) {
        // All work in this block is done, so it loses its marks and its owner.
        Block* const block = retired_.front();
        const std::size_t bytes = block->bytes;
        block->marks.clear();
        if (is_in_arena(*block)) block->stream = kNoStream;
        take_out(block);
        retired_bytes_ -= bytes;
        retired_.pop_front();
    }
    release_spare();
}

bool BlockHeap::has_memory(const Block* block) const {
    return block != nullptr && block->state != BlockState::hole &&
           block->state != BlockState::closed && block->state != BlockState::vacated &&
           !is_paused(*block);
}

// A block has just got memory, or is about to lose it: counts the ranges that have memory.
void BlockHeap::gets_memory(const Block& block) {
    stretches_ += 1 - has_memory(block.before) - has_memory(block.behind);
}

void BlockHeap::loses_memory(const Block& block) {
    stretches_ -= 1 - has_memory(block.before) - has_memory(block.behind);
}

}  // namespace gapless::runtime
