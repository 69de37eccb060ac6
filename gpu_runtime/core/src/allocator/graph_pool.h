// The addresses and blocks of one pool of captured graphs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "allocator/block.h"
#include "allocator/extent.h"
#include "allocator/serving_allocator.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Note [Frames of captured graphs]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Each replay of a graph writes to the addresses of its capture, so under PyTorch the
// memory of a pool serves nobody else, and pools hold the sum of what their graphs need. Graphs
// that never replay at the same time need the memory of one.
// Approach. A capture runs nothing. Its addresses are fixed when a request is served; what lies
// under them can change until the capture ends. All pools share one list of *scratch* frames.
// During a capture, page k that needs a frame gets frame k of the list. If the free ranges of a
// stream do not fit a request, the frames of whole idle pages of that stream come to new addresses,
// as work of one stream runs in order. The pages that had them serve no request any more. At the
// end of the capture, pages with blocks in use get frames that only this pool has (*own* frames).
// All other pages of the capture are closed: they stay mapped to scratch frames, for replays alone.
// Own frames serve later captures of their pool, also when their blocks are freed; earlier captures
// of the pool may have had them as scratch. So a block that outlives its capture is written to by
// its own pool alone, as under PyTorch. Why this is the least. Let a capture end with s frames
// without a block in use and m frames with one, and let the other pools need the first n scratch
// frames. The s frames become the first s of the list. The m frames are taken from behind the first
// max(s, n), and created where the list is too short. So each pool needs a beginning of the list,
// and the list is as long as the longest of these. Hence reserved <= largest s + sum of all m: the
// scratch of the largest graph, and what outlives each graph. The capture itself needed s + m
// frames, so it held no more than that either. Between replays. An *eager* pool serves work that
// runs at once, while no graph replays: its requests lie on the same list as those of a capture. At
// the end of this work, blocks that are still in use are copied to own frames. All other pages stay
// mapped and serve the pool again, for nothing that they hold is used after a replay. They are
// the first of the list, so the bound above holds with one graph more. A frame that comes to
// another address costs device calls each time, where a capture pays them once. So the list first
// gets longer, up to what PyTorch would reserve; then the bound is the larger of the two. If frames
// had to move all the same, the addresses are in pieces: the next work gets none of them. Limits.
// The host waits for the device when a capture ends; when eager work ends, only if there is
// something to copy or to unmap: own pages are the smallest free ranges, so what lives on at the
// end of equal work lies in them the next time. Blocks used on another stream than their own come
// back after a wait. A page with one small block in use is an own page as a whole.

class GraphPool {
  public:
    // A block, or free bytes.
    struct Range {
        std::size_t bytes = 0;
        std::size_t requested = 0;
        Stream stream = kNoStream;            // free bytes of kNoStream serve every stream
        BlockState state = BlockState::free;  // or used, or withheld
        bool is_small = false;
        bool is_shared = false;  // another stream uses the block
        ShadowPlace in_shadow;
    };
    using Ranges = std::map<Address, Range>;
    using Entry = Ranges::iterator;

    // `scratch` is the list of all pools.
    GraphPool(DeviceMemory& memory, std::vector<Pages>& scratch, bool is_eager)
        : memory_(memory),
          scratch_(scratch),
          page_bytes_(memory.page_bytes()),
          is_eager_(is_eager) {}

    // Requests come from work that runs at once, while no graph replays.
    bool is_eager() const { return is_eager_; }

    // Returns a block in use. The list may get `spare` bytes longer before idle frames come to
    // other addresses. Throws OutOfDeviceMemory, DeviceCallError.
    Entry place(std::size_t requested, Stream stream, std::size_t spare);
    // The block in use at an address, or null.
    Range* find(Address address);
    void free(Address address);
    // Returns true between the first request of a capture, or of eager work, and end_capture().
    bool is_capturing() const { return is_capturing_; }
    // Returns false if end_capture() would neither copy nor unmap, and no block waits for a stream.
    bool must_wait() const;
    // The device is idle, or need not be; the other pools need the first `others` scratch frames.
    // Throws OutOfDeviceMemory, DeviceCallError; then no graph of this capture may be replayed
    // before another call has succeeded.
    void end_capture(std::size_t others, bool is_idle);
    // The device is idle, no graph is left and none is captured: gives back all pages without
    // blocks in use. Returns true if none is left. Throws DeviceCallError.
    bool give_back();

    // Number of scratch frames that its graphs need.
    std::size_t scratch_frames() const { return std::max(scratch_frames_, chains_.size()); }
    std::size_t own_frames() const { return own_.size(); }
    bool owns(Address address) const { return extent_at(address) != nullptr; }
    std::vector<SegmentOfBlocks> segments() const;
    std::optional<GaplessBlock> block_of(Address address) const;

  private:
    // Addresses that no page has had yet. Small requests have pages of their own, so that they keep
    // few pages alive.
    struct Frontier {
        Extent* extent = nullptr;
        Address next = 0, end = 0;
    };
    // A frame for a new page: the next scratch frame, or that of an idle page.
    struct Source {
        Pages frame;
        Address idle = 0;
    };

    Entry grow(std::size_t bytes, Stream stream, bool is_small);
    std::vector<Source> sources(std::size_t count, Stream stream, Entry kept);
    Entry merge(Entry entry);
    void close(Address page);
    void remap(Address page, Pages frame);
    void copy(Address page, Pages frame);
    void unmap(Address page);
    std::set<Address> pages_in_use() const;
    Extent* extent_at(Address address) const;

    DeviceMemory& memory_;
    std::vector<Pages>& scratch_;
    const std::size_t page_bytes_;
    const bool is_eager_;
    std::vector<std::unique_ptr<Extent>> extents_;
    std::unique_ptr<Extent> window_;     // for copies
    std::array<Frontier, 2> frontiers_;  // of large and of small requests
    Ranges ranges_;
    std::set<Pages> own_;
    std::size_t spare_frames_ = 0;    // of the request that is being placed
    std::size_t scratch_frames_ = 0;  // after the captures that have ended
    bool is_capturing_ = false;
    bool begins_anew_ = true;  // eager work, without a page of the work before
    // Of the running capture: the pages that scratch frame k had, one after the other; and k of the
    // pages that have it now. An eager pool keeps the last page of each for its next work.
    std::vector<std::vector<Address>> chains_;
    std::map<Address, std::size_t> chain_of_;
};

}  // namespace gapless::runtime
