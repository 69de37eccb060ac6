#include "allocator/graph_pool.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "device/invariant.h"
#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Addresses that are reserved at once. A guess.
constexpr std::size_t kExtentBytes = std::size_t{64} << 30;

bool serves(const GraphPool::Range& range, Stream stream) {
    return range.state == BlockState::free &&
           (range.stream == stream || range.stream == kNoStream);
}

}  // namespace

GraphPool::Entry GraphPool::place(std::size_t requested, Stream stream) {
    is_capturing_ = true;
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    Region& region = regions_[requested <= kSmallBytes ? 1 : 0];
    Entry entry = best_fit(region, bytes, stream);
    if (entry == region.ranges.end()) entry = grow(region, bytes, stream);
    auto& [address, range] = *entry;
    if (range.bytes > bytes) {
        Range rest = range;
        rest.bytes -= bytes;
        region.ranges.emplace(address + bytes, rest);
    }
    range = {.bytes = bytes, .requested = requested, .stream = stream, .state = BlockState::used};
    return entry;
}

GraphPool::Entry GraphPool::best_fit(Region& region, std::size_t bytes, Stream stream) {
    Entry best = region.ranges.end();
    for (Entry entry = region.ranges.begin(); entry != region.ranges.end(); ++entry) {
        const Range& range = entry->second;
        if (range.bytes < bytes || !serves(range, stream)) continue;
        if (best == region.ranges.end() || range.bytes < best->second.bytes) best = entry;
    }
    return best;
}

// Maps new pages behind all others, where they continue the last free range.
GraphPool::Entry GraphPool::grow(Region& region, std::size_t bytes, Stream stream) {
    Entry tail = region.ranges.end();
    if (!region.ranges.empty()) {
        const Entry last = std::prev(tail);
        const bool is_tail = last->first + last->second.bytes == region.next;
        if (is_tail && serves(last->second, stream)) tail = last;
    }
    const auto missing_behind = [&] {
        const std::size_t present = tail == region.ranges.end() ? 0 : tail->second.bytes;
        return round_up(bytes - present, page_bytes_);
    };
    std::size_t missing = missing_behind();
    if (region.end - region.next < missing) {
        tail = region.ranges.end();
        missing = missing_behind();
        // The last page stays unused, so no two extents touch.
        const std::size_t reserved =
            std::max(missing + page_bytes_, round_up(kExtentBytes, page_bytes_));
        region.extents.push_back(std::make_unique<Extent>(Extent::paged(memory_, reserved)));
        region.next = region.extents.back()->begin();
        region.end = region.extents.back()->end() - page_bytes_;
    }
    const std::vector<Source> found =
        sources(missing / page_bytes_, stream, tail == region.ranges.end() ? 0 : tail->first);
    std::vector<Pages> frames;
    for (const Source& source : found) frames.push_back(source.frame);
    region.extents.back()->map(region.next, frames);
    Address page = region.next;
    for (const Source& source : found) {
        const auto chain = chain_of_.find(source.idle);
        if (source.idle == 0) {
            chain_of_[page] = chains_.size();
            chains_.push_back({page});
        } else if (chain != chain_of_.end()) {
            const std::size_t number = chain->second;
            chain_of_.erase(chain);
            chain_of_[page] = number;
            chains_[number].push_back(page);
        }
        if (source.idle != 0) close(source.idle);
        page += page_bytes_;
    }
    // The frames may have been idle ones of this stream.
    if (tail != region.ranges.end()) tail->second.stream = stream;
    const Entry added =
        region.ranges.emplace(region.next, Range{.bytes = missing, .stream = stream}).first;
    region.next += missing;
    return merge(region.ranges, added);
}

// Returns frames of the list that the capture does not use yet, then frames of idle pages, then new
// ones. Takes no page of the free range at `kept`.
std::vector<GraphPool::Source> GraphPool::sources(std::size_t count, Stream stream, Address kept) {
    std::vector<std::pair<std::size_t, Address>> ranges;
    const std::size_t present = std::min(count, scratch_.size() - std::min(scratch_.size(),
                                                                           chains_.size()));
    for (const Region& region : regions_) {
        for (const auto& [address, range] : region.ranges) {
            if (address != kept && serves(range, stream)) ranges.emplace_back(range.bytes, address);
        }
    }
    // The largest come first, so that few ranges lose pages.
    std::ranges::sort(ranges, std::greater());
    std::vector<Source> idle;
    for (const auto& [bytes, address] : ranges) {
        const Extent& extent = *extent_at(address);
        for (auto [page, behind] = extent.whole_frames(address, address + bytes, bytes);
             page < behind && present + idle.size() < count; page += page_bytes_) {
            idle.push_back({extent.frame_at(page), page});
        }
    }
    const std::size_t listed = count - idle.size();
    while (scratch_.size() < chains_.size() + listed) {
        scratch_.push_back(memory_.create_pages(page_bytes_));
    }
    std::vector<Source> found;
    for (std::size_t k = 0; k < listed; ++k) found.push_back({scratch_[chains_.size() + k]});
    found.insert(found.end(), idle.begin(), idle.end());
    return found;
}

// Merges a free range with its free neighbours of the same stream.
GraphPool::Entry GraphPool::merge(Ranges& ranges, Entry entry) {
    const auto is_one = [](const Entry& first, const Entry& second) {
        return first->first + first->second.bytes == second->first &&
               first->second.state == BlockState::free && second->second.state == BlockState::free &&
               first->second.stream == second->second.stream;
    };
    if (entry != ranges.begin() && is_one(std::prev(entry), entry)) {
        const Entry before = std::prev(entry);
        before->second.bytes += entry->second.bytes;
        ranges.erase(entry);
        entry = before;
    }
    if (const Entry behind = std::next(entry); behind != ranges.end() && is_one(entry, behind)) {
        entry->second.bytes += behind->second.bytes;
        ranges.erase(behind);
    }
    return entry;
}

// Takes a page out of its free range. Its addresses serve no request any more.
void GraphPool::close(Address page) {
    Ranges& ranges = region_of(page).ranges;
    const Entry entry = std::prev(ranges.upper_bound(page));
    const Address end = entry->first + entry->second.bytes, behind = page + page_bytes_;
    Range rest = entry->second;
    entry->second.bytes = page - entry->first;
    if (entry->second.bytes == 0) ranges.erase(entry);
    rest.bytes = end - behind;
    if (rest.bytes > 0) ranges.emplace(behind, rest);
}

GraphPool::Range* GraphPool::find(Address address) {
    for (Region& region : regions_) {
        const Entry entry = region.ranges.find(address);
        if (entry == region.ranges.end()) continue;
        return entry->second.state == BlockState::used ? &entry->second : nullptr;
    }
    return nullptr;
}

void GraphPool::free(Address address) {
    Ranges& ranges = region_of(address).ranges;
    const Entry entry = ranges.find(address);
    Range& range = entry->second;
    range.state = range.is_shared ? BlockState::withheld : BlockState::free;
    // Between captures, the next one may be on any stream.
    if (!is_capturing_) range.stream = kNoStream;
    if (range.state == BlockState::free) merge(ranges, entry);
}

// See Note [Frames of captured graphs].
void GraphPool::end_capture(std::size_t others) {
    for (Region& region : regions_) {
        for (Entry entry = region.ranges.begin(); entry != region.ranges.end(); ++entry) {
            if (entry->second.state == BlockState::used) continue;
            entry->second.state = BlockState::free;
            entry->second.stream = kNoStream;
            entry = merge(region.ranges, entry);
        }
    }
    const std::set<Address> in_use = pages_in_use();
    const auto outlives = [&](std::size_t k) { return in_use.contains(chains_[k].back()); };
    std::size_t scratch = 0;
    for (std::size_t k = 0; k < chains_.size(); ++k) scratch += outlives(k) ? 0 : 1;
    // Pages in use take frames from here on; the frames before are scratch.
    const std::size_t first_own = std::max(scratch, others);
    std::vector<std::size_t> to_scratch, to_own, own;
    std::set<std::size_t> taken;
    for (std::size_t k = 0; k < chains_.size(); ++k) {
        if (outlives(k) ? k >= first_own : k < scratch) {
            taken.insert(k);
            if (outlives(k)) own.push_back(k);
        } else {
            (outlives(k) ? to_own : to_scratch).push_back(k);
        }
    }
    std::vector<std::pair<std::size_t, std::size_t>> moves;  // of chains, to frames of the list
    const auto move_all = [&](const std::vector<std::size_t>& chains, std::size_t first) {
        for (const std::size_t chain : chains) {
            while (taken.contains(first)) ++first;
            if (first == scratch_.size()) scratch_.push_back(memory_.create_pages(page_bytes_));
            moves.emplace_back(chain, first++);
        }
    };
    move_all(to_own, first_own);
    for (const auto& [chain, frame] : moves) own.push_back(frame);
    move_all(to_scratch, 0);
    for (const auto& [chain, frame] : moves) {
        for (const Address page : chains_[chain]) remap(page, scratch_[frame]);
    }
    for (std::size_t k = 0; k < chains_.size(); ++k) {
        if (!outlives(k)) close(chains_[k].back());
    }
    std::ranges::sort(own, std::greater());
    std::size_t left = scratch_frames_;
    for (const std::size_t frame : own) {
        if (frame < scratch_frames_) --left;
        own_.insert(scratch_[frame]);
        scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(frame));
    }
    scratch_frames_ = std::max(scratch, left);
    chains_.clear();
    chain_of_.clear();
    is_capturing_ = false;
}

void GraphPool::remap(Address page, Pages frame) {
    Extent& extent = *extent_at(page);
    if (extent.frame_at(page) != kNoFrame) extent.unmap(page, page + page_bytes_);
    extent.map(page, {&frame, 1});
}

bool GraphPool::give_back() {
    const std::set<Address> in_use = pages_in_use();
    std::set<Pages> left;
    for (Region& region : regions_) {
        for (const auto& extent : region.extents) {
            for (Address page = extent->begin(); page < extent->mapped_end(); page += page_bytes_) {
                if (extent->frame_at(page) == kNoFrame) continue;
                if (in_use.contains(page)) {
                    left.insert(extent->frame_at(page));
                    continue;
                }
                extent->unmap(page, page + page_bytes_);
                const auto behind = region.ranges.upper_bound(page);
                if (behind == region.ranges.begin()) continue;
                const auto& [address, range] = *std::prev(behind);
                if (address + range.bytes > page) close(page);
            }
        }
    }
    scratch_frames_ = 0;
    std::erase_if(own_, [&](Pages frame) {
        if (!left.contains(frame)) memory_.release_pages(frame);
        return !left.contains(frame);
    });
    if (!in_use.empty()) return false;
    for (Region& region : regions_) {
        for (const auto& extent : region.extents) {
            memory_.release_range(extent->begin(), extent->bytes());
        }
        region = {};
    }
    return true;
}

std::set<Address> GraphPool::pages_in_use() const {
    std::set<Address> pages;
    for (const Region& region : regions_) {
        for (const auto& [address, range] : region.ranges) {
            if (range.state == BlockState::free) continue;
            Address page = address / page_bytes_ * page_bytes_;
            for (; page < address + range.bytes; page += page_bytes_) pages.insert(page);
        }
    }
    return pages;
}

Extent* GraphPool::extent_at(Address address) const {
    for (const Region& region : regions_) {
        for (const auto& extent : region.extents) {
            if (extent->begin() <= address && address < extent->end()) return extent.get();
        }
    }
    return nullptr;
}

GraphPool::Region& GraphPool::region_of(Address address) {
    const Extent* const found = extent_at(address);
    const auto is_found = [&](const auto& extent) { return extent.get() == found; };
    return regions_[std::ranges::any_of(regions_[1].extents, is_found) ? 1 : 0];
}

std::vector<SegmentOfBlocks> GraphPool::segments() const {
    std::vector<SegmentOfBlocks> segments;
    for (const Region& region : regions_) {
        Address end = 0;
        for (const auto& [address, range] : region.ranges) {
            const Stream stream = range.stream == kNoStream ? 0 : range.stream;
            if (address != end) {
                segments.push_back({{.address = address, .bytes = 0, .stream = stream}, {}});
            }
            end = address + range.bytes;
            segments.back().segment.bytes += range.bytes;
            const bool is_used = range.state == BlockState::used;
            // A free makes no call to the device, whichever streams use the block.
            segments.back().blocks.push_back({.address = address,
                                              .bytes = range.bytes,
                                              .requested_bytes = is_used ? range.requested : 0,
                                              .stream = stream,
                                              .device = 0,
                                              .other_streams = 0,
                                              .is_allocated = is_used,
                                              .is_active = is_used});
        }
    }
    return segments;
}

void GraphPool::check() const {
    std::set<Pages> frames;
    for (const Region& region : regions_) {
        Address end = 0;
        for (const auto& [address, range] : region.ranges) {
            require(address >= end && range.bytes > 0, "ranges do not overlap");
            for (Address page = std::max(end, address) / page_bytes_ * page_bytes_;
                 page < address + range.bytes; page += page_bytes_) {
                if (page < end) continue;
                const Pages frame = extent_at(page)->frame_at(page);
                require(frames.insert(frame).second, "open pages have different frames");
                const auto chain = chain_of_.find(page);
                require(chain == chain_of_.end() ? own_.contains(frame)
                                                 : scratch_.at(chain->second) == frame,
                        "an open page has a frame of its own, or that of its chain");
            }
            end = address + range.bytes;
        }
    }
    require(scratch_frames() <= scratch_.size(), "the list has the frames that a pool needs");
}

}  // namespace gapless::runtime
