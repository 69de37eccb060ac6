#include "allocator/page_heap.h"

#include <algorithm>
#include <iterator>

namespace gapless::runtime {

namespace {

// Addresses cost nothing; a new extent is a call to the device.
constexpr std::size_t kExtentBytes = std::size_t{64} << 30;
// Of what is mapped, how much may lie idle before it is moved to new addresses.
constexpr std::size_t kIdleShare = 16;
// The device is asked for its free memory before it is asked for more pages than these at once.
constexpr std::size_t kUncheckedPages = 64;

}  // namespace

PageHeap::PageHeap(DeviceMemory& memory) : memory_(memory), page_bytes_(memory.page_bytes()) {}

Address PageHeap::allocate(std::size_t requested, Stream stream, Placement placement) {
    if (!waiting_.empty()) collect_waiting(false);
    if (requested > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    const std::size_t bytes = round_up(requested, kBlockAlignment);
    Pool& pool = pool_of(stream, bytes);
    Address address = pool.latest;
    if (placement == Placement::best_fit && pool.latest_bytes == bytes) {
        pool.latest_bytes = 0;
    } else {
        try {
            address = place(bytes, pool, placement);
        } catch (const OutOfDeviceMemory&) {
            address = place_with_all(bytes, pool);
        }
    }
    blocks_.emplace(address, Block{requested, bytes, stream, &pool, {}});
    return address;
}

void PageHeap::free(Address address) {
    const auto found = blocks_.find(address);
    Block block = std::move(found->second);
    blocks_.erase(found);
    if (block.used_on.empty()) {
        add_latest(*block.pool);
        block.pool->latest = address;
        block.pool->latest_bytes = block.bytes;
        return;
    }
    const std::vector<Stream> streams = std::move(block.used_on);
    waiting_.emplace(address, Waiting{std::move(block), streams.size()});
    for (const Stream stream : streams) {
        uses_[stream].push_back({memory_.record_event(stream), address});
    }
}

void PageHeap::use_on(Address address, Stream stream) {
    Block& block = blocks_.at(address);
    if (stream == block.stream) return;
    if (std::ranges::find(block.used_on, stream) == block.used_on.end()) {
        block.used_on.push_back(stream);
    }
}

void PageHeap::give_back() {
    memory_.synchronize();
    collect_waiting(true);
    unmap_idle();
    release_spare_pages();
}

std::optional<PageHeap::Room> PageHeap::find_room(std::size_t bytes) {
    bytes = round_up(bytes, kBlockAlignment);
    for (auto& [key, pool] : pools_) {
        for (auto range = pool.free.begin(); range != pool.free.end(); ++range) {
            const auto [address, free_bytes] = *range;
            const Address first = round_up(address, page_bytes_);
            if (first + bytes > address + free_bytes) continue;
            const auto& [begin, extent] = *std::prev(pool.extents.upper_bound(first));
            const Pages page = extent.pages[(first - begin) / page_bytes_];
            blocks_.emplace(first, Block{bytes, bytes, key.first, &pool, {}});
            erase_range(pool, range);
            if (first > address) insert_range(pool, address, first - address);
            const Address behind = first + bytes;
            if (behind < address + free_bytes) {
                insert_range(pool, behind, address + free_bytes - behind);
            }
            return Room{first, page};
        }
    }
    return std::nullopt;
}

PageHeap::Pool& PageHeap::pool_of(Stream stream, std::size_t bytes) {
    const std::size_t half = page_bytes_ / 2;
    const std::size_t grain = bytes % page_bytes_ == 0 ? page_bytes_
                              : bytes % half == 0      ? half
                                                       : kBlockAlignment;
    return pools_[{stream, grain}];
}

Address PageHeap::place(std::size_t bytes, Pool& pool, Placement placement) {
    add_latest(pool);
    if (placement == Placement::best_fit) {
        const auto fit = pool.free_by_size.lower_bound({bytes, 0});
        if (fit != pool.free_by_size.end()) {
            return take(pool, pool.free.find(fit->second), bytes);
        }
        return take(pool, grow(pool, bytes), bytes);
    }
    const auto last = last_range(pool);
    if (last != pool.free.end() && last->second >= bytes) return take(pool, last, bytes);
    if (idle_bytes_ > mapped_bytes_ / kIdleShare) {
        memory_.synchronize();
        unmap_idle();
    }
    return take(pool, grow(pool, bytes), bytes);
}

// Places a block with all memory that nothing else holds.
Address PageHeap::place_with_all(std::size_t bytes, Pool& pool) {
    give_back();
    try {
        return place(bytes, pool, Placement::best_fit);
    } catch (const OutOfDeviceMemory&) {
        // Others, libraries among them, may need what this one could not use.
        give_back();
        throw;
    }
}

Address PageHeap::take(Pool& pool, std::map<Address, std::size_t>::iterator range,
                       std::size_t bytes) {
    const auto [address, free_bytes] = *range;
    erase_range(pool, range);
    if (free_bytes > bytes) insert_range(pool, address + bytes, free_bytes - bytes);
    return address;
}

std::map<Address, std::size_t>::iterator PageHeap::last_range(Pool& pool) {
    const auto extent = pool.extents.find(pool.last_extent);
    if (extent == pool.extents.end()) return pool.free.end();
    const auto behind = pool.free.lower_bound(extent->second.end);
    if (behind == pool.free.begin()) return pool.free.end();
    const auto range = std::prev(behind);
    const bool touches_end = range->first + range->second == extent->second.end;
    return touches_end && range->first >= extent->first ? range : pool.free.end();
}

std::map<Address, std::size_t>::iterator PageHeap::grow(Pool& pool, std::size_t bytes) {
    auto last = last_range(pool);
    const std::size_t present = last == pool.free.end() ? 0 : last->second;
    auto extent = pool.extents.find(pool.last_extent);
    std::size_t missing = round_up(bytes - std::min(bytes, present), page_bytes_);
    if (extent == pool.extents.end() ||
        extent->second.end + missing > extent->first + extent->second.bytes) {
        missing = round_up(bytes, page_bytes_);
        std::size_t range = std::max(missing, round_up(kExtentBytes, page_bytes_));
        Address address = 0;
        try {
            address = memory_.reserve_range(range);
        } catch (const OutOfDeviceMemory&) {
            // Thousands of streams have taken nearly all addresses.
            range = missing;
            address = memory_.reserve_range(range);
        }
        extent = pool.extents.emplace(address, Extent{range, address, {}, 0}).first;
        pool.last_extent = address;
    }
    require_free(missing);
    // A page at a time: where memory ends halfway, what was mapped is a free range like any other.
    for (std::size_t done = 0; done < missing; done += page_bytes_) {
        const Pages page = obtain_page();
        try {
            memory_.map(extent->second.end, page, page_bytes_);
        } catch (...) {
            spare_pages_.push_back(page);
            throw;
        }
        extent->second.pages.push_back(page);
        ++extent->second.mapped;
        mapped_bytes_ += page_bytes_;
        const Address address = extent->second.end;
        extent->second.end += page_bytes_;
        add_free(pool, address, page_bytes_);
    }
    return last_range(pool);
}

// Most of a card would take seconds to map, only to be given back.
void PageHeap::require_free(std::size_t bytes) {
    const std::size_t spare = spare_pages_.size() * page_bytes_;
    if (bytes <= spare + kUncheckedPages * page_bytes_) return;
    const std::size_t free = memory_.free_bytes();
    if (bytes - spare > free) {
        throw OutOfDeviceMemory(std::to_string(free) + " bytes are free");
    }
}

Pages PageHeap::obtain_page() {
    if (spare_pages_.empty()) {
        const Pages page = memory_.create_pages(page_bytes_);
        reserved_bytes_ += page_bytes_;
        return page;
    }
    const Pages page = spare_pages_.back();
    spare_pages_.pop_back();
    return page;
}

void PageHeap::add_free(Pool& pool, Address address, std::size_t bytes) {
    auto next = pool.free.lower_bound(address);
    // Extents may lie side by side; a range of two would not survive the end of one of them.
    if (next != pool.free.end() && next->first == address + bytes &&
        !pool.extents.contains(next->first)) {
        bytes += next->second;
        const auto merged = next++;
        erase_range(pool, merged);
    }
    if (next != pool.free.begin() && !pool.extents.contains(address)) {
        const auto before = std::prev(next);
        if (before->first + before->second == address) {
            address = before->first;
            bytes += before->second;
            erase_range(pool, before);
        }
    }
    insert_range(pool, address, bytes);
}

void PageHeap::add_latest(Pool& pool) {
    if (pool.latest_bytes == 0) return;
    add_free(pool, pool.latest, pool.latest_bytes);
    pool.latest_bytes = 0;
}

void PageHeap::insert_range(Pool& pool, Address address, std::size_t bytes) {
    pool.free.emplace(address, bytes);
    pool.free_by_size.emplace(bytes, address);
    idle_bytes_ += whole_pages(address, bytes);
}

void PageHeap::erase_range(Pool& pool, std::map<Address, std::size_t>::iterator range) {
    const auto [address, bytes] = *range;
    idle_bytes_ -= whole_pages(address, bytes);
    pool.free_by_size.erase({bytes, address});
    pool.free.erase(range);
}

// Ranges of addresses begin at multiples of a page.
std::size_t PageHeap::whole_pages(Address address, std::size_t bytes) const {
    const Address first = round_up(address, page_bytes_);
    const Address last = (address + bytes) / page_bytes_ * page_bytes_;
    return last > first ? last - first : 0;
}

void PageHeap::collect_waiting(bool all) {
    for (auto stream = uses_.begin(); stream != uses_.end();) {
        std::deque<Use>& uses = stream->second;
        // Of those that are not done the first is the first to be, but where the handle of a stream
        // that is gone was given out again: that only keeps blocks for longer.
        while (!uses.empty()) {
            // Another device's stream may be at work even after this one was waited for.
            if (all) {
                memory_.await(uses.front().event);
            } else if (!memory_.is_done(uses.front().event)) {
                break;
            }
            end_use(uses);
        }
        stream = uses.empty() ? uses_.erase(stream) : std::next(stream);
    }
    if (!all) return;
    for (const auto& [address, waiting] : waiting_) {
        add_free(*waiting.block.pool, address, waiting.block.bytes);
    }
    waiting_.clear();
}

void PageHeap::end_use(std::deque<Use>& uses) {
    memory_.destroy_event(uses.front().event);
    const auto found = waiting_.find(uses.front().block);
    uses.pop_front();
    if (--found->second.streams > 0) return;
    add_free(*found->second.block.pool, found->first, found->second.block.bytes);
    waiting_.erase(found);
}

void PageHeap::unmap_idle() {
    for (auto& [key, pool] : pools_) unmap_idle(pool);
}

void PageHeap::unmap_idle(Pool& pool) {
    add_latest(pool);
    // Copied, because the ranges change under way.
    const std::vector<std::pair<Address, std::size_t>> ranges(pool.free.begin(), pool.free.end());
    for (const auto& [address, bytes] : ranges) {
        const std::size_t whole = whole_pages(address, bytes);
        if (whole == 0) continue;
        const Address first = round_up(address, page_bytes_);
        const Address behind = first + whole;
        erase_range(pool, pool.free.find(address));
        if (first > address) insert_range(pool, address, first - address);
        unmap_pages(pool, first, behind, address + bytes);
        if (behind < address + bytes) insert_range(pool, behind, address + bytes - behind);
    }
    for (auto extent = pool.extents.begin(); extent != pool.extents.end();) {
        // Addresses behind the last mapped page are used again.
        while (!extent->second.pages.empty() && extent->second.pages.back() == 0) {
            extent->second.pages.pop_back();
            extent->second.end -= page_bytes_;
        }
        if (extent->second.mapped > 0 || extent->first == pool.last_extent) {
            ++extent;
            continue;
        }
        memory_.release_range(extent->first, extent->second.bytes);
        extent = pool.extents.erase(extent);
    }
}

void PageHeap::unmap_pages(Pool& pool, Address first, Address behind, Address range_end) {
    auto& [begin, extent] = *std::prev(pool.extents.upper_bound(first));
    // One by one: the driver unmaps exactly what was mapped by one call.
    for (Address page = first; page < behind; page += page_bytes_) {
        try {
            memory_.unmap(page, page_bytes_);
        } catch (...) {
            insert_range(pool, page, range_end - page);
            throw;
        }
        Pages& pages = extent.pages[(page - begin) / page_bytes_];
        spare_pages_.push_back(pages);
        pages = 0;
        --extent.mapped;
        mapped_bytes_ -= page_bytes_;
    }
}

void PageHeap::release_spare_pages() {
    while (!spare_pages_.empty()) {
        memory_.release_pages(spare_pages_.back());
        spare_pages_.pop_back();
        reserved_bytes_ -= page_bytes_;
    }
}

void PageHeap::check() const {
    const auto hold = [](bool holds, const char* rule) {
        if (!holds) throw std::logic_error(std::string("heap: ") + rule);
    };
    std::map<Address, std::size_t> used;
    for (const auto& [address, block] : blocks_) used.emplace(address, block.bytes);
    for (const auto& [address, waiting] : waiting_) used.emplace(address, waiting.block.bytes);
    hold(used.size() == blocks_.size() + waiting_.size(),
         "no two blocks begin at the same address");
    std::size_t mapped_pages = 0;
    std::size_t idle = 0;
    for (const auto& [key, pool] : pools_) {
        if (pool.latest_bytes > 0) {
            hold(used.emplace(pool.latest, pool.latest_bytes).second, "a block is freed once");
        }
        for (const auto& [address, bytes] : pool.free) {
            hold(pool.free_by_size.contains({bytes, address}), "free ranges are known by size");
            hold(used.emplace(address, bytes).second, "no block begins where a free range does");
            idle += whole_pages(address, bytes);
        }
        hold(pool.free_by_size.size() == pool.free.size(), "each free range is known once");
        for (const auto& [begin, extent] : pool.extents) {
            const auto mapped = std::ranges::count_if(extent.pages, [](Pages p) { return p != 0; });
            hold(static_cast<std::size_t>(mapped) == extent.mapped, "mapped pages are counted");
            hold(extent.end == begin + extent.pages.size() * page_bytes_, "extents end with pages");
            mapped_pages += extent.mapped;
        }
    }
    hold(idle_bytes_ == idle, "idle pages are counted");
    hold(mapped_bytes_ == mapped_pages * page_bytes_, "mapped bytes are counted");
    hold(reserved_bytes_ == mapped_bytes_ + spare_pages_.size() * page_bytes_,
         "pages are mapped or spare");
    std::size_t covered = 0;
    Address end = 0;
    for (const auto& [address, bytes] : used) {
        hold(address >= end, "no two blocks or free ranges share a byte");
        end = address + bytes;
        covered += bytes;
    }
    hold(covered == mapped_bytes_, "every mapped byte is in a block or free");
}

}  // namespace gapless::runtime
