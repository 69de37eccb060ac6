#include "allocator/graph_pool.h"

#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Addresses that are reserved at once. A guess.
constexpr std::size_t kExtentBytes = std::size_t{64} << 30;

bool serves(const GraphPool::Range& range, Stream stream) {
    return range.state == BlockState::free && (range.stream == stream || range.stream == kNoStream);
}

}  // namespace

GraphPool::Entry GraphPool::place(std::size_t requested, Stream stream, std::size_t spare) {
    is_capturing_ = true;
    spare_frames_ = spare / page_bytes_;
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    const bool is_small = requested <= kSmallBytes;
    Entry best = ranges_.end();
    for (Entry entry = ranges_.begin(); entry != ranges_.end(); ++entry) {
        const Range& range = entry->second;
        if (range.bytes < bytes || range.is_small != is_small || !serves(range, stream)) continue;
        if (best == ranges_.end() || range.bytes < best->second.bytes) best = entry;
    }
    if (best == ranges_.end()) best = grow(bytes, stream, is_small);
    Range& block = best->second;
    if (block.bytes > bytes) {
        Range rest = block;
        rest.bytes -= bytes;
        ranges_.emplace(best->first + bytes, rest);
    }
    block.bytes = bytes;
    block.requested = requested;
    block.stream = stream;
    block.state = BlockState::used;
    block.is_shared = false;
    return best;
}

// Maps new pages behind all others of the kind, where they continue the last free range.
GraphPool::Entry GraphPool::grow(std::size_t bytes, Stream stream, bool is_small) {
    Frontier& frontier = frontiers_[is_small ? 1 : 0];
    Entry tail = ranges_.lower_bound(frontier.next);
    const bool is_tail = tail != ranges_.begin() && serves((--tail)->second, stream) &&
                         tail->first + tail->second.bytes == frontier.next;
    if (!is_tail) tail = ranges_.end();
    std::size_t missing = round_up(bytes - (is_tail ? tail->second.bytes : 0), page_bytes_);
    if (frontier.end - frontier.next < missing) {
        tail = ranges_.end();
        missing = round_up(bytes, page_bytes_);
        // The last page stays unused, so no two extents touch.
        const std::size_t reserved =
            std::max(missing + page_bytes_, round_up(kExtentBytes, page_bytes_));
        extents_.push_back(std::make_unique<Extent>(Extent::paged(memory_, reserved)));
        Extent& extent = *extents_.back();
        frontier = {&extent, extent.begin(), extent.end() - page_bytes_};
    }
    const std::vector<Source> found = sources(missing / page_bytes_, stream, tail);
    std::vector<Pages> frames;
    for (const Source& source : found) frames.push_back(source.frame);
    frontier.extent->map(frontier.next, frames);
    // The frames may have been idle ones of this stream.
    if (tail != ranges_.end()) tail->second.stream = stream;
    const Range added{.bytes = missing, .stream = stream, .is_small = is_small, .in_shadow = {}};
    const Entry entry = ranges_.emplace(frontier.next, added).first;
    for (const Source& source : found) {
        const Address page = std::exchange(frontier.next, frontier.next + page_bytes_);
        if (source.idle == 0) {
            chain_of_[page] = chains_.size();
            chains_.push_back({page});
            continue;
        }
        close(source.idle);
        const auto chain = chain_of_.extract(source.idle);
        if (chain.empty()) continue;
        chain_of_[page] = chain.mapped();
        chains_[chain.mapped()].push_back(page);
    }
    return merge(entry);
}

// Returns frames of the list that the capture does not use yet, then spare ones, then those of idle
// pages, then new ones. Takes no page of the free range `kept`.
std::vector<GraphPool::Source> GraphPool::sources(std::size_t count, Stream stream, Entry kept) {
    const std::size_t used = chains_.size();
    std::size_t listed = std::min(count, scratch_.size() - used);
    const auto lengthen = [&](std::size_t more) {
        for (; more > 0; --more, ++listed) scratch_.push_back(memory_.create_pages(page_bytes_));
    };
    try {
        lengthen(std::min(count - listed, spare_frames_));
    } catch (const OutOfDeviceMemory&) {
        // Idle pages serve as well, by more device calls.
    }
    // The largest ranges come first, so that few lose pages.
    std::vector<std::pair<std::size_t, Address>> ranges;
    for (Entry entry = ranges_.begin(); entry != ranges_.end(); ++entry) {
        if (entry == kept || !serves(entry->second, stream)) continue;
        ranges.emplace_back(entry->second.bytes, entry->first);
    }
    std::ranges::sort(ranges, std::greater());
    std::vector<Source> idle;
    for (const auto& [bytes, address] : ranges) {
        const Extent& extent = *extent_at(address);
        for (auto [page, end] = extent.whole_frames(address, address + bytes, bytes);
             page < end && listed + idle.size() < count; page += page_bytes_) {
            idle.push_back({extent.frame_at(page), page});
        }
    }
    lengthen(count - listed - idle.size());
    std::vector<Source> found;
    for (std::size_t k = used; k < used + listed; ++k) found.push_back({scratch_[k]});
    found.insert(found.end(), idle.begin(), idle.end());
    return found;
}

// Merges a free range with its free neighbours of the same stream.
GraphPool::Entry GraphPool::merge(Entry entry) {
    const auto absorb = [&](Entry first, Entry second) {
        Range &one = first->second, &other = second->second;
        const bool is_one = first->first + one.bytes == second->first &&
                            one.state == BlockState::free && other.state == BlockState::free &&
                            one.stream == other.stream;
        if (!is_one) return second;
        one.bytes += other.bytes;
        ranges_.erase(second);
        return first;
    };
    if (entry != ranges_.begin()) entry = absorb(std::prev(entry), entry);
    if (std::next(entry) != ranges_.end()) absorb(entry, std::next(entry));
    return entry;
}

// Takes a page out of its free range, if it is in one. Its addresses serve no request any more.
void GraphPool::close(Address page) {
    Entry entry = ranges_.upper_bound(page);
    if (entry == ranges_.begin()) return;
    const Address begin = (--entry)->first, end = begin + entry->second.bytes;
    if (end <= page) return;
    Range rest = entry->second;
    entry->second.bytes = page - begin;
    if (page == begin) ranges_.erase(entry);
    rest.bytes = end - page - page_bytes_;
    if (rest.bytes > 0) ranges_.emplace(page + page_bytes_, rest);
}

GraphPool::Range* GraphPool::find(Address address) {
    const Entry entry = ranges_.find(address);
    const bool is_used = entry != ranges_.end() && entry->second.state == BlockState::used;
    return is_used ? &entry->second : nullptr;
}

void GraphPool::free(Address address) {
    const Entry entry = ranges_.find(address);
    Range& range = entry->second;
    range.state = range.is_shared ? BlockState::withheld : BlockState::free;
    // Between captures, the next one may be on any stream; it runs after a wait.
    if (!is_capturing_ && !is_eager_) range.stream = kNoStream;
    if (!range.is_shared) merge(entry);
}

bool GraphPool::must_wait() const {
    if (!is_eager_) return true;
    const std::set<Address> in_use = pages_in_use();
    return std::ranges::any_of(chains_,
                               [&](const auto& chain) {
                                   return chain.size() > 1 || in_use.contains(chain.back());
                               }) ||
           std::ranges::any_of(
               ranges_, [](const auto& each) { return each.second.state == BlockState::withheld; });
}

// See Note [Frames of captured graphs].
void GraphPool::end_capture(std::size_t others, bool is_idle) {
    for (Entry entry = ranges_.begin(); is_idle && entry != ranges_.end(); ++entry) {
        if (entry->second.state == BlockState::used) continue;
        entry->second.state = BlockState::free;
        entry->second.stream = kNoStream;
        entry = merge(entry);
    }
    const std::set<Address> in_use = pages_in_use();
    std::vector<std::size_t> idle, outliving;
    for (std::size_t k = 0; k < chains_.size(); ++k) {
        (in_use.contains(chains_[k].back()) ? outliving : idle).push_back(k);
    }
    std::vector<std::size_t> frame_of(chains_.size());  // of each chain, in the list
    // Gives chains frames from `begin` to `end`; those that have one of them keep it.
    const auto assign = [&](const std::vector<std::size_t>& chains, std::size_t begin,
                            std::size_t end) {
        std::set<std::size_t> taken;
        std::ranges::copy_if(chains, std::inserter(taken, taken.end()),
                             [&](std::size_t k) { return begin <= k && k < end; });
        std::size_t next = begin;
        for (const std::size_t k : chains) {
            frame_of[k] = k;
            if (begin <= k && k < end) continue;
            while (!taken.insert(next).second) ++next;
            if (next == scratch_.size()) scratch_.push_back(memory_.create_pages(page_bytes_));
            frame_of[k] = next;
        }
        return taken;
    };
    const std::set<std::size_t> own =
        assign(outliving, std::max(idle.size(), others), std::numeric_limits<std::size_t>::max());
    assign(idle, 0, idle.size());
    for (std::size_t k = 0; k < chains_.size(); ++k) {
        const Pages frame = scratch_[frame_of[k]];
        const Address last = chains_[k].back();
        if (is_eager_ && in_use.contains(last)) copy(last, frame);
        for (const Address page : chains_[k]) {
            // Graphs alone use the addresses that a frame had before its last ones.
            if (is_eager_ && page != last) {
                unmap(page);
            } else {
                remap(page, frame);
            }
        }
    }
    // Frames that had to move left the addresses in pieces. Then the next work begins anew, unless
    // this one did, and had to move frames all the same.
    const bool has_moved =
        std::ranges::any_of(chains_, [](const auto& its) { return its.size() > 1; });
    begins_anew_ = has_moved && !begins_anew_;
    const bool is_kept = is_eager_ && !begins_anew_;
    std::vector<std::vector<Address>> kept(is_kept ? idle.size() : 0);
    chain_of_.clear();
    for (const std::size_t k : idle) {
        const Address last = chains_[k].back();
        if (is_kept) {
            kept[frame_of[k]] = {last};
            chain_of_[last] = frame_of[k];
            continue;
        }
        if (is_eager_) unmap(last);
        close(last);
    }
    std::size_t left = scratch_frames_;
    for (auto frame = own.rbegin(); frame != own.rend(); ++frame) {
        if (*frame < scratch_frames_) --left;
        own_.insert(scratch_[*frame]);
        scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(*frame));
    }
    scratch_frames_ = is_eager_ ? 0 : std::max(idle.size(), left);
    chains_ = std::move(kept);
    is_capturing_ = false;
}

// Copies a page to a frame, through addresses of its own.
void GraphPool::copy(Address page, Pages frame) {
    const Pages present = extent_at(page)->frame_at(page);
    // A call before this one may have copied the page, and the device refused to map it.
    if (present == frame || present == kNoFrame) return;
    if (!window_) window_ = std::make_unique<Extent>(Extent::paged(memory_, page_bytes_));
    const Address target = window_->begin();
    if (window_->frame_at(target) != kNoFrame) window_->unmap(target, target + page_bytes_);
    window_->map(target, {&frame, 1});
    memory_.copy(target, page, page_bytes_);
    memory_.await_copies();
    window_->unmap(target, target + page_bytes_);
}

void GraphPool::unmap(Address page) {
    Extent& extent = *extent_at(page);
    // The device may have refused to map a page before.
    if (extent.frame_at(page) != kNoFrame) extent.unmap(page, page + page_bytes_);
}

void GraphPool::remap(Address page, Pages frame) {
    Extent& extent = *extent_at(page);
    if (extent.frame_at(page) == frame) return;
    unmap(page);
    extent.map(page, {&frame, 1});
}

bool GraphPool::give_back() {
    const std::set<Address> in_use = pages_in_use();
    std::set<Pages> left;
    for (const auto& extent : extents_) {
        for (Address page = extent->begin(); page < extent->mapped_end(); page += page_bytes_) {
            if (extent->frame_at(page) == kNoFrame) continue;
            if (in_use.contains(page)) {
                left.insert(extent->frame_at(page));
            } else {
                unmap(page);
                close(page);
            }
        }
    }
    scratch_frames_ = 0;
    chains_.clear();
    chain_of_.clear();
    std::erase_if(own_, [&](Pages frame) {
        if (!left.contains(frame)) memory_.release_pages(frame);
        return !left.contains(frame);
    });
    if (!left.empty()) return false;
    for (const auto& extent : extents_) memory_.release_range(extent->begin(), extent->bytes());
    if (window_) memory_.release_range(window_->begin(), page_bytes_);
    return true;
}

std::set<Address> GraphPool::pages_in_use() const {
    std::set<Address> pages;
    for (const auto& [address, range] : ranges_) {
        if (range.state == BlockState::free) continue;
        const Address first = address / page_bytes_ * page_bytes_;
        for (Address page = first; page < address + range.bytes; page += page_bytes_) {
            pages.insert(page);
        }
    }
    return pages;
}

Extent* GraphPool::extent_at(Address address) const {
    for (const auto& extent : extents_) {
        if (extent->begin() <= address && address < extent->end()) return extent.get();
    }
    return nullptr;
}

std::vector<SegmentOfBlocks> GraphPool::segments() const {
    std::vector<SegmentOfBlocks> segments;
    Address end = 0;
    for (const auto& [address, range] : ranges_) {
        const GaplessBlock block = *block_of(address);
        if (address != end) segments.push_back({{address, 0, block.stream, 0, false}, {}});
        end = address + range.bytes;
        segments.back().segment.bytes += range.bytes;
        segments.back().blocks.push_back(block);
    }
    return segments;
}

// Tells of no other streams, because no free makes a call to the device.
std::optional<GaplessBlock> GraphPool::block_of(Address address) const {
    const auto behind = ranges_.upper_bound(address);
    if (behind == ranges_.begin()) return std::nullopt;
    const auto& [begin, range] = *std::prev(behind);
    if (address - begin >= range.bytes) return std::nullopt;
    const bool is_used = range.state == BlockState::used;
    const Stream stream = range.stream == kNoStream ? 0 : range.stream;
    const std::size_t requested = is_used ? range.requested : 0;
    return GaplessBlock{begin, range.bytes, requested, stream, 0, 0, is_used, is_used};
}

}  // namespace gapless::runtime
