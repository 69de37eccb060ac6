#include "online/vpmm.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "device/sizes.h"
#include "online/online_allocators.h"

namespace gapless::runtime {

namespace {

bool is_mapped(const VpmmRegion* region) { return region != nullptr && region->has_pages(); }

// Returns true if a free region next to `other` can merge with it.
bool is_one(const VpmmRegion* region, const VpmmRegion& other) {
    return region != nullptr && region->state == VpmmState::free && region->stream == other.stream;
}

OnlineState shown_as(VpmmState state) {
    switch (state) {
        case VpmmState::live:
            return OnlineState::allocated;
        case VpmmState::pending:
            return OnlineState::pending;
        case VpmmState::free:
        case VpmmState::fresh:
            return OnlineState::free;
        case VpmmState::hole:
        case VpmmState::zombie:
            break;
    }
    return OnlineState::unmapped;
}

// Orders equal regions by falling address.
Address place_of(const VpmmRegion& region) { return ~region.address; }

}  // namespace

const VpmmSettings& VpmmSettings::validated(const DeviceMemory& memory) const {
    const auto refuse = [](const char* field, const std::string& rule, std::size_t found) {
        throw std::invalid_argument(std::string("field ") + field + ": " + rule + ", found " +
                                    std::to_string(found));
    };
    if (page_bytes == 0 || page_bytes % memory.page_bytes() != 0) {
        refuse("page_bytes", "a multiple of " + std::to_string(memory.page_bytes()), page_bytes);
    }
    if (chunk_bytes == 0 || chunk_bytes % page_bytes != 0) {
        refuse("chunk_bytes", "a multiple of page_bytes, " + std::to_string(page_bytes),
               chunk_bytes);
    }
    if (pages > chunk_bytes / page_bytes) {
        refuse("pages", "at most a chunk's pages, " + std::to_string(chunk_bytes / page_bytes),
               pages);
    }
    return *this;
}

Vpmm::Vpmm(DeviceMemory& memory, const VpmmSettings& settings)
    : memory_(memory),
      settings_(settings.validated(memory)),
      small_(memory, PytorchSettings(), &account_),
      mapper_(memory),
      stock_(memory, mapper_, account_, settings.page_bytes),
      space_(memory, settings.page_bytes, settings.chunk_bytes),
      pending_(memory) {
    space_.reserve();
    if (settings.pages == 0) return;
    try {
        put(gather(settings.pages * settings.page_bytes, 0));
    } catch (const OutOfDeviceMemory&) {
        const std::size_t most = account_.figures().reserved_peak / settings.page_bytes;
        give_back();
        throw OutOfDeviceMemory("field pages: the device has memory for " + std::to_string(most) +
                                " pages of " + std::to_string(settings.page_bytes) +
                                " bytes, found " + std::to_string(settings.pages));
    } catch (...) {
        give_back();
        throw;
    }
}

Address Vpmm::allocate(std::size_t requested, Stream stream) {
    if (requested < settings_.page_bytes) {
        settle();
        try {
            return small_.allocate(requested, stream);
        } catch (const OutOfDeviceMemory&) {
        }
        give_back();
        return small_.allocate(requested, stream);
    }
    if (requested > settings_.chunk_bytes) {
        throw OutOfDeviceMemory("a request of " + std::to_string(requested) +
                                " bytes, more than a chunk of addresses has");
    }
    settle();
    unmap_zombies();
    const std::size_t bytes = round_up(requested, settings_.page_bytes);
    VpmmRegion& region = obtain(bytes, stream);
    region.state = VpmmState::live;
    region.stream = stream;
    region.requested = requested;
    live_.insert(region.address, &region);
    account_.allocated(requested, bytes);
    return region.address;
}

// Returns a region with memory for a request, in no list.
VpmmRegion& Vpmm::obtain(std::size_t bytes, Stream stream) {
    if (VpmmRegion* const found = find(bytes, stream)) return *found;
    try {
        return gather(bytes, stream);
    } catch (const OutOfDeviceMemory&) {
    }
    pending_.await_all([this](VpmmRegion& region) { come_back(region); });
    await_unmarked();
    small_.give_back();
    if (VpmmRegion* const found = find(bytes, stream)) return *found;
    return gather(bytes, stream);
}

VpmmRegion* Vpmm::find(std::size_t bytes, Stream stream) {
    const VpmmListed least{bytes, 0, nullptr};
    const VpmmListed* best = nullptr;
    const auto own = free_.find(stream);
    if (own != free_.end()) {
        const auto fit = own->second.lower_bound(least);
        if (fit != own->second.end()) best = &*fit;
    }
    if (best == nullptr) {
        for (const auto& [other, list] : free_) {
            for (auto fit = list.lower_bound(least);
                 fit != list.end() && (best == nullptr || *fit < *best); ++fit) {
                if (is_done(*fit->region)) best = &*fit;
            }
        }
    }
    if (best == nullptr) return nullptr;
    VpmmRegion& region = *best->region;
    unlist(region);
    if (bytes < region.bytes) {
        VpmmRegion& rest = space_.split(region, bytes);
        rest.id = region.id;
        rest.event = region.event;
        rest.mark = std::exchange(region.mark, VpmmMark::done);
        list(rest);
    }
    forget_event(region);
    return &region;
}

// All calls that the device may refuse come first, so that an error changes no region.
VpmmRegion& Vpmm::gather(std::size_t bytes, Stream stream) {
    VpmmRegion& hole = space_.hole_for(bytes);
    std::size_t missing = bytes;
    std::vector<Harvest> parts;
    for (VpmmRegion* const region : movable(stream)) {
        if (missing == 0) break;
        parts.push_back({region, std::min(region->bytes, missing)});
        missing -= parts.back().bytes;
        if (region->stream != stream && !is_done(*region)) memory_.make_wait(stream, region->event);
    }
    const std::size_t missing_pages = missing / settings_.page_bytes;
    std::vector<Pages> pages;
    try {
        while (pages.size() < missing_pages) pages.push_back(stock_.obtain());
        for (const Harvest& part : parts) {
            const std::span<const Pages> moved =
                space_.pages_of(*part.region).first(part.bytes / settings_.page_bytes);
            pages.insert(pages.end(), moved.begin(), moved.end());
        }
        mapper_.map(hole.address, pages, settings_.page_bytes);
    } catch (...) {
        pages.resize(std::min(pages.size(), missing_pages));
        for (const Pages each : pages) stock_.give(each);
        throw;
    }

    VpmmRegion& made = space_.carve(hole, bytes);
    for (const Harvest& part : parts) leave(part);
    std::ranges::copy(pages, space_.pages_of(made).begin());
    made.state = VpmmState::free;
    made.stream = stream;
    appear(made);
    return made;
}

// Returns the free regions whose pages may move to a request of a stream, in the order of moves.
std::vector<VpmmRegion*> Vpmm::movable(Stream stream) {
    const bool may_wait = !memory_.is_captured(stream);
    std::vector<VpmmRegion*> found;
    for (const auto& [owner, list] : free_) {
        for (const VpmmListed& listed : list) {
            VpmmRegion& region = *listed.region;
            if (!is_marked(region)) continue;
            if (owner == stream || may_wait || is_done(region)) found.push_back(&region);
        }
    }
    std::ranges::sort(found, {}, [stream](const VpmmRegion* region) {
        return std::pair(region->stream != stream, region->id);
    });
    return found;
}

// Makes the part of a region whose pages have moved a zombie.
void Vpmm::leave(const Harvest& part) {
    VpmmRegion& region = *part.region;
    unlist(region);
    if (part.bytes < region.bytes) {
        VpmmRegion& rest = space_.split(region, part.bytes);
        mark(rest);
        list(rest);
    }
    disappear(region);
    region.state = VpmmState::zombie;
    zombies_.emplace(std::pair(region.stream, region.id), &region);
    zombie_bytes_ += region.bytes;
    zombie_bytes_peak_ = std::max(zombie_bytes_peak_, zombie_bytes_);
}

void Vpmm::unmap_zombies() {
    for (auto next = zombies_.begin(); next != zombies_.end();) {
        const auto [stream, id] = next->first;
        if (is_done(*next->second)) {
            bury(*next->second);
            next = zombies_.erase(next);
        } else {
            // Later work of the same stream is not done either.
            next = zombies_.upper_bound({stream, std::numeric_limits<std::uint64_t>::max()});
        }
    }
}

void Vpmm::bury(VpmmRegion& zombie) {
    memory_.unmap(zombie.address, zombie.bytes);
    forget_event(zombie);
    zombie_bytes_ -= zombie.bytes;
    space_.make_hole(zombie);
}

bool Vpmm::free(Address address) {
    VpmmRegion* const region = live_.find(address);
    if (region == nullptr) return small_.free(address);
    live_.erase(address);
    account_.freed(region->requested, region->bytes);
    mark(*region);
    if (region->used_on.empty()) {
        come_back(*region);
    } else {
        region->state = VpmmState::pending;
        pending_.add(*region, region->used_on);
        region->used_on.clear();
    }
    return true;
}

bool Vpmm::use_on(Address address, Stream stream) {
    VpmmRegion* const region = live_.find(address);
    if (region == nullptr) return small_.use_on(address, stream);
    use_until_free(region->used_on, region->stream, stream);
    return true;
}

void Vpmm::settle() {
    small_.settle();
    pending_.collect([this](VpmmRegion& region) { come_back(region); });
}

void Vpmm::give_back() {
    small_.give_back();
    pending_.await_all([this](VpmmRegion& region) { come_back(region); });
    await_unmarked();
    const auto await = [this](VpmmRegion& region) {
        if (region.mark == VpmmMark::recorded) memory_.await(region.event);
    };
    mapper_.settle();
    while (!zombies_.empty()) {
        await(*zombies_.begin()->second);
        bury(*zombies_.begin()->second);
        zombies_.erase(zombies_.begin());
    }
    std::vector<VpmmRegion*> idle;
    for (const auto& [owner, list] : free_) {
        if (list.empty() || memory_.is_captured(owner)) continue;
        for (const VpmmListed& listed : list) idle.push_back(listed.region);
    }
    for (VpmmRegion* const region : idle) {
        await(*region);
        memory_.unmap(region->address, region->bytes);
        unlist(*region);
        forget_event(*region);
        disappear(*region);
        for (const Pages each : space_.pages_of(*region)) stock_.give(each);
        space_.make_hole(*region);
    }
    stock_.release_kept();
    space_.release_idle();
}

void Vpmm::come_back(VpmmRegion& region) {
    account_.finished(region.requested, region.bytes);
    put(region);
}

void Vpmm::put(VpmmRegion& region) {
    region.state = VpmmState::free;
    VpmmRegion* whole = &region;
    if (is_one(region.behind, region)) {
        unlist(*region.behind);
        keep_later_event(region);
        space_.absorb(region);
    }
    if (is_one(region.before, region)) {
        whole = region.before;
        unlist(*whole);
        keep_later_event(*whole);
        space_.absorb(*whole);
    }
    list(*whole);
}

void Vpmm::list(VpmmRegion& region) {
    account_.add_free(region.bytes);
    region.listed = free_.try_emplace(region.stream, &nodes_)
                        .first->second.insert({region.bytes, place_of(region), &region})
                        .first;
}

void Vpmm::unlist(VpmmRegion& region) {
    account_.remove_free(region.bytes);
    free_.find(region.stream)->second.erase(region.listed);
}

void Vpmm::appear(const VpmmRegion& region) {
    account_.add_segment();
    if (is_mapped(region.before)) account_.remove_segment();
    if (is_mapped(region.behind)) account_.remove_segment();
}

void Vpmm::disappear(const VpmmRegion& region) {
    if (is_mapped(region.before)) account_.add_segment();
    if (is_mapped(region.behind)) account_.add_segment();
    account_.remove_segment();
}

// Records an event for a region. Only work that its stream has got so far uses the region.
void Vpmm::mark(VpmmRegion& region) {
    region.id = ++last_id_;
    region.mark = VpmmMark::missing;
    try {
        if (memory_.is_captured(region.stream)) return;
        region.event = memory_.record_event(region.stream);
        region.mark = VpmmMark::recorded;
    } catch (const DeviceCallError&) {
        // The mark stays `missing`.
    }
}

// Records a missing event if possible; the event is later than necessary, and hence safe.
bool Vpmm::is_marked(VpmmRegion& region) {
    if (region.mark == VpmmMark::missing) mark(region);
    return region.mark != VpmmMark::missing;
}

void Vpmm::await_unmarked() {
    std::vector<VpmmRegion*> unmarked;
    for (const auto& [owner, list] : free_) {
        for (const VpmmListed& listed : list) {
            if (is_marked(*listed.region) || memory_.is_captured(owner)) continue;
            unmarked.push_back(listed.region);
        }
    }
    if (unmarked.empty()) return;
    memory_.synchronize();
    for (VpmmRegion* const region : unmarked) region->mark = VpmmMark::done;
}

bool Vpmm::is_done(VpmmRegion& region) {
    if (region.mark == VpmmMark::recorded && memory_.is_done(region.event)) forget_event(region);
    return region.mark == VpmmMark::done;
}

// Drops the event of a region for which no stream has to wait.
void Vpmm::forget_event(VpmmRegion& region) {
    if (std::exchange(region.mark, VpmmMark::done) != VpmmMark::recorded) return;
    try {
        memory_.destroy_event(region.event);
    } catch (const DeviceCallError&) {
        // The event leaks, which is harmless: no code reads it again.
    }
}

// Keeps the later event of a region and the one behind it, before they merge.
void Vpmm::keep_later_event(VpmmRegion& region) {
    VpmmRegion& behind = *region.behind;
    if (region.id < behind.id) {
        std::swap(region.id, behind.id);
        std::swap(region.event, behind.event);
        std::swap(region.mark, behind.mark);
    }
    forget_event(behind);
}

std::vector<VpmmView> Vpmm::regions() const {
    std::vector<VpmmView> views;
    for (const auto& [address, chunk] : space_.chunks()) {
        for (const VpmmRegion* region = chunk.first; region != nullptr; region = region->behind) {
            views.push_back({region->address, region->bytes, region->state, region->stream});
        }
    }
    return views;
}

OwnFigures Vpmm::own_figures() const {
    std::size_t holes = 0, hole_bytes = 0;
    for (const VpmmView& region : regions()) {
        if (region.state != VpmmState::hole) continue;
        ++holes;
        hole_bytes += region.bytes;
    }
    const std::size_t chunks = space_.chunks().size();
    return {{"chunks", chunks},
            {"address_bytes", chunks * settings_.chunk_bytes},
            {"holes", holes},
            {"hole_bytes", hole_bytes},
            {"zombies", zombies_.size()},
            {"zombie_bytes", zombie_bytes_},
            {"zombie_bytes_peak", zombie_bytes_peak_}};
}

std::vector<OnlineSegment> Vpmm::segments() const {
    std::vector<OnlineSegment> found = small_.segments();
    for (const auto& [address, chunk] : space_.chunks()) {
        OnlineSegment& segment = found.emplace_back();
        segment.address = address;
        segment.bytes = settings_.chunk_bytes;
        for (const VpmmRegion* region = chunk.first; region != nullptr; region = region->behind) {
            const bool is_live = region->state == VpmmState::live;
            segment.blocks.push_back({region->address, region->bytes,
                                      is_live ? region->requested : 0, shown_as(region->state)});
        }
    }
    std::ranges::sort(found, {}, &OnlineSegment::address);
    return found;
}

std::optional<LiveBlock> Vpmm::live_block(Address address) const {
    const VpmmRegion* const region = live_.find(address);
    if (region == nullptr) return small_.live_block(address);
    return LiveBlock{region->bytes, region->requested, region->stream, region->used_on.size()};
}

OnlineDefinition describe_vpmm() {
    return {.name = "vpmm",
            .summary = "Move free pages side by side for a request; only streams wait meanwhile.",
            .source = "VPMM, a virtual memory pool for training",
            // The largest page fits into the usual chunk of addresses, the most pages do too.
            .parameters = {{.name = "page_mib",
                            .help = "MiB of a page (VPMM_PAGE_SIZE)",
                            .usual = std::int64_t{2},
                            .least = 2,
                            .most = std::int64_t{1} << 23,
                            .is_power_of_two = true},
                           {.name = "pages",
                            .help = "pages made before the first request (VPMM_PAGES)",
                            .usual = std::int64_t{0},
                            .most = std::int64_t{1} << 22},
                           {.name = "chunk_mib",
                            .help = "MiB of addresses that are reserved at once (VPMM_VA_SIZE)",
                            .usual = std::int64_t{1} << 23,
                            .least = 2,
                            .most = kMostMebibytes}},
            .make = [](DeviceMemory& memory, const OnlineValues& values) -> MadeOnline {
                return std::make_unique<Vpmm>(
                    memory, VpmmSettings{.page_bytes = bytes_of_mebibytes(values.at(0)),
                                         .pages = static_cast<std::size_t>(
                                             std::get<std::int64_t>(values.at(1))),
                                         .chunk_bytes = bytes_of_mebibytes(values.at(2))});
            },
            .dictated = "",
            .crosses_streams = true};
}

}  // namespace gapless::runtime
