// The invariants of VPMM's regions, pages and sums.
#include <set>
#include <stdexcept>

#include "online/vpmm.h"

namespace gapless::runtime {

namespace {

void require(bool holds, const char* rule) {
    if (!holds) throw std::logic_error(rule);
}

}  // namespace

void Vpmm::check() const {
    small_.check();
    space_.check();
    std::size_t live = 0, free = 0, pending = 0, zombies = 0, zombie_bytes = 0;
    for (const auto& [address, chunk] : space_.chunks()) {
        for (const VpmmRegion* region = chunk.first; region != nullptr; region = region->behind) {
            const VpmmRegion* const behind = region->behind;
            require((region->pending > 0) == (region->state == VpmmState::pending),
                    "a freed region waits for something");
            switch (region->state) {
                case VpmmState::live:
                    ++live;
                    require(live_.find(region->address) == region, "a live region is found");
                    require(region->mark == VpmmMark::done, "a live region has no event");
                    break;
                case VpmmState::pending:
                    ++pending;
                    break;
                case VpmmState::free:
                    ++free;
                    require(free_.at(region->stream).contains(*region->listed) &&
                                region->listed->region == region &&
                                region->listed->bytes == region->bytes,
                            "a free region is in its stream's list");
                    require(behind == nullptr || behind->state != VpmmState::free ||
                                behind->stream != region->stream,
                            "no two free regions of a stream touch");
                    break;
                case VpmmState::zombie:
                    ++zombies;
                    zombie_bytes += region->bytes;
                    require(zombies_.at({region->stream, region->id}) == region,
                            "a zombie is known");
                    break;
                case VpmmState::hole:
                    break;
                case VpmmState::fresh:
                    require(false, "between requests no region is fresh");
            }
        }
    }
    for (const auto& [stream, list] : free_) {
        require(list.size() <= free, "lists hold what there is");
        free -= list.size();
    }
    require(free == 0, "lists hold what there is");
    require(live == live_.size(), "as many regions are live as are found");
    require((pending == 0) == pending_.empty(), "pending regions are known");
    require(zombies == zombies_.size() && zombie_bytes == zombie_bytes_, "zombies are regions");
    check_pages();
    check_sums();
}

// Each page is in one place, and perhaps in zombies at its earlier places.
void Vpmm::check_pages() const {
    std::set<Pages> placed;
    std::size_t count = 0;
    for (const auto& [address, chunk] : space_.chunks()) {
        for (const VpmmRegion* region = chunk.first; region != nullptr; region = region->behind) {
            if (!region->has_pages()) continue;
            for (const Pages each : space_.pages_of(*region)) {
                require(placed.insert(each).second, "a page is in one place");
                ++count;
            }
        }
    }
    for (const auto& [turn, zombie] : zombies_) {
        for (const Pages each : space_.pages_of(*zombie)) {
            require(placed.contains(each), "a zombie's pages are elsewhere");
        }
    }
    require(count * settings_.page_bytes + stock_.kept_bytes() ==
                account_.figures().reserved_bytes - small_.figures().reserved_bytes,
            "reserved are the pages and what small requests have");
}

void Vpmm::check_sums() const {
    OnlineFigures found = small_.figures();
    found.free_bytes += stock_.kept_bytes();
    for (const auto& [address, chunk] : space_.chunks()) {
        bool is_stretch = false;
        for (const VpmmRegion* region = chunk.first; region != nullptr; region = region->behind) {
            if (region->state == VpmmState::live) {
                found.requested_bytes += region->requested;
                found.allocated_bytes += region->bytes;
            }
            if (region->state == VpmmState::free) {
                found.free_bytes += region->bytes;
            } else if (region->has_pages()) {
                found.active_bytes += region->bytes;
            }
            if (region->has_pages() && !is_stretch) ++found.segments;
            is_stretch = region->has_pages();
        }
    }
    const OnlineFigures& kept = account_.figures();
    require(found.requested_bytes == kept.requested_bytes &&
                found.allocated_bytes == kept.allocated_bytes &&
                found.active_bytes == kept.active_bytes && found.free_bytes == kept.free_bytes &&
                found.segments == kept.segments,
            "the sums are those of the regions and of small requests");
    require(kept.reserved_bytes == kept.active_bytes + kept.free_bytes,
            "reserved is what is active or free");
}

}  // namespace gapless::runtime
