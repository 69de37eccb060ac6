// The invariants of VPMM's regions and pages.
#include <set>

#include "device/invariant.h"
#include "online/vpmm.h"

namespace gapless::runtime {

void Vpmm::check_own() const {
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

}  // namespace gapless::runtime
