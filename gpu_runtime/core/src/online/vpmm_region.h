// A region, which is a range of VPMM's addresses, and the ordered lists of regions.
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
    pending,  // freed, but another stream may still use it
    free,
    fresh,   // new pages, for the current request
    hole,    // without memory
    zombie,  // its pages moved elsewhere, and earlier work may still use them here
};

// The known state of a stream's work in a region that is not live.
enum class VpmmMark : std::uint8_t {
    done,
    recorded,  // an event tells when the work is done
    missing,   // no event: the stream is captured or gone, or the device refused one
};

struct VpmmRegion;

// Ordered by size, then by place.
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
    VpmmRegion* before = nullptr;  // the adjacent region in the chunk
    VpmmRegion* behind = nullptr;
    VpmmChunk* chunk = nullptr;
    VpmmState state = VpmmState::hole;
    VpmmMark mark = VpmmMark::done;
    Stream stream = 0;     // the stream that used it last; only `used_on` may have others
    Event event = 0;       // recorded at its free
    std::uint64_t id = 0;  // ascends in the order of the events
    std::size_t requested = 0;
    std::size_t pending = 0;        // number of streams whose work the freed region waits for
    std::vector<Stream> used_on{};  // other streams that use a live region
    VpmmList::iterator listed{};    // the entry of a free region or a hole in its list

    Address end() const { return address + bytes; }
    // Returns true if the region owns its pages; only zombies may map them as well.
    bool has_pages() const {
        return state == VpmmState::live || state == VpmmState::pending || state == VpmmState::free;
    }
};

// A range of addresses that was reserved as one.
struct VpmmChunk {
    Address address = 0;
    VpmmRegion* first = nullptr;
    std::vector<Pages> pages;  // by their places, up to the last place that ever had a page
};

// A region, as tests and listings see it.
struct VpmmView {
    Address address;
    std::size_t bytes;
    VpmmState state;
    Stream stream;
};

}  // namespace gapless::runtime
