// A stretch of the addresses that VPMM has, and the ordered lists that it is found in.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <set>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

enum class VpmmState : std::uint8_t {
    live,
    pending,  // freed, and another stream may be at work there
    free,
    fresh,   // pages that the request which is served now was short of
    hole,    // no memory is behind it
    zombie,  // its pages appear elsewhere too, and work from before they moved may go on here
};

// Of a region that is not live: what is known of the work of its stream.
enum class VpmmMark : std::uint8_t {
    done,
    recorded,  // it is done when an event is
    missing,   // its stream is captured or gone, or the device refused an event
};

struct VpmmRegion;

// Equal sizes are in the order of the places.
struct VpmmListed {
    std::size_t bytes;
    Address place;
    VpmmRegion* region;
    auto operator<=>(const VpmmListed&) const = default;
};
using VpmmList = std::pmr::set<VpmmListed>;

struct VpmmChunk;

struct VpmmRegion {
    Address address = 0;
    std::size_t bytes = 0;
    VpmmRegion* before = nullptr;  // by address, within the chunk, without a gap
    VpmmRegion* behind = nullptr;
    VpmmChunk* chunk = nullptr;
    VpmmState state = VpmmState::hole;
    VpmmMark mark = VpmmMark::done;
    Stream stream = 0;     // whose work used it last; its own alone, but for `used_on`
    Event event = 0;       // that was recorded when it was freed
    std::uint64_t id = 0;  // in the order of the events
    std::size_t requested = 0;
    std::size_t pending = 0;        // what it waits for since it was freed
    std::vector<Stream> used_on{};  // of a live one
    VpmmList::iterator listed{};    // where it is free or a hole

    Address end() const { return address + bytes; }
    // Its pages are nowhere else but in zombies.
    bool has_pages() const {
        return state == VpmmState::live || state == VpmmState::pending || state == VpmmState::free;
    }
};

// Addresses that were reserved at once.
struct VpmmChunk {
    Address address = 0;
    VpmmRegion* first = nullptr;
    std::vector<Pages> pages;  // by their place, as far as there ever were some
};

// What is told of a region.
struct VpmmView {
    Address address;
    std::size_t bytes;
    VpmmState state;
    Stream stream;
};

}  // namespace gapless::runtime
