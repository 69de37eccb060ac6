// A heap that grows by pages: serves whatever no plan serves.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Every block begins at a multiple of this many bytes, as in PyTorch's own allocator: libraries
// choose kernels by the alignment of their arguments.
constexpr std::size_t kBlockAlignment = 512;

// More than any device has: what is asked for above this is refused before it is rounded up.
constexpr std::size_t kMostBytes = std::size_t{1} << 48;

constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

// Where a new block goes.
enum class Placement {
    best_fit,  // into the smallest free range of its stream
    in_order,  // behind the block that was allocated last, see Note [Blocks in order]
};

// Note [Blocks in order]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. While a step is profiled nobody knows which requests will outlive it. A best fit puts
// weights of an optimizer into holes between activations, and when the activations have moved to an
// arena each of them keeps two pages that hold little else.
// Approach. Addresses are plenty: a request gets those behind the last block, never a hole between
// two. Requests that a program makes together lie together, also what outlives the step. Pages that
// hold nothing any more are mapped again at the next addresses, which costs calls to the device
// and, because nothing may run on a page that disappears, a synchronisation; so they are collected
// until they are a sixteenth of what is mapped.
// Limits. Where what outlives a step is allocated one by one between what does not, each piece
// keeps up to two pages. Pieces of whole pages or of halves, such as the workspaces of libraries,
// do not: they have addresses of their own, where none begins within a page that it need not share.

// Blocks are reused in the order of their stream: a free range belongs to the stream whose work
// used it, and work that is submitted later to the same stream runs later. A block that other
// streams used is free when events say that they are done.
class PageHeap {
  public:
    explicit PageHeap(DeviceMemory& memory);
    // Gives back nothing: what lives here may outlive the driver.
    ~PageHeap() = default;

    // Returns the address of a block of at least `bytes` > 0 bytes. Where memory is short, all that
    // is free is given back and it is tried again; what that takes in vain is given back as well.
    // Throws OutOfDeviceMemory.
    Address allocate(std::size_t bytes, Stream stream, Placement placement);
    bool owns(Address block) const { return blocks_.contains(block); }
    std::size_t requested_bytes(Address block) const { return blocks_.at(block).requested; }
    void free(Address block);
    // The block is used by a stream that did not allocate it.
    void use_on(Address block, Stream stream);

    // Waits for the device and gives back every page that holds nothing.
    void give_back();

    // Part of a page that the heap has anyway.
    struct Room {
        Address block;  // in use from now on
        Pages page;     // its first bytes are the block
    };
    // Finds room for some bytes, less than a page, at the beginning of a page.
    std::optional<Room> find_room(std::size_t bytes);

    // Physical memory that the heap has.
    std::size_t reserved_bytes() const { return reserved_bytes_; }

    // Holds every rule of the structure against itself; throws std::logic_error. For tests.
    void check() const;

  private:
    struct Pool;
    struct Block {
        std::size_t requested;
        std::size_t bytes;  // a multiple of kBlockAlignment
        Stream stream;
        Pool* pool;  // where its bytes come from and go back to
        std::vector<Stream> used_on;
    };
    // A range of addresses; pages are mapped from its beginning up to `end`, apart from those that
    // were taken out again.
    struct Extent {
        std::size_t bytes;
        Address end;
        std::vector<Pages> pages;  // one a page, 0 where nothing is mapped
        std::size_t mapped = 0;    // pages
    };
    // What belongs to one stream: blocks of whole pages, of half pages, or the others. Free ranges
    // are mapped, and no two touch.
    struct Pool {
        std::map<Address, Extent> extents;
        Address last_extent = 0;  // where the pool grows
        std::map<Address, std::size_t> free;
        std::set<std::pair<std::size_t, Address>> free_by_size;
        // The block that was freed last, not among the free ranges yet: programs like to ask for
        // the size that they have just given back.
        Address latest = 0;
        std::size_t latest_bytes = 0;
    };
    // A block that is free as soon as other streams are done with it. Where the device refused to
    // record the event of one, that one is never seen to be: only the device's end tells.
    struct Waiting {
        Block block;
        std::size_t streams;  // that are not known to be done
    };
    struct Use {
        Event event;
        Address block;
    };

    Pool& pool_of(Stream stream, std::size_t bytes);
    Address place(std::size_t bytes, Pool& pool, Placement placement);
    Address place_with_all(std::size_t bytes, Pool& pool);
    Address take(Pool& pool, std::map<Address, std::size_t>::iterator range, std::size_t bytes);
    std::map<Address, std::size_t>::iterator last_range(Pool& pool);
    // Maps pages behind the pool's last extent, or in a new one, until its last free range has the
    // bytes.
    std::map<Address, std::size_t>::iterator grow(Pool& pool, std::size_t bytes);
    void require_free(std::size_t bytes);
    Pages obtain_page();

    void add_free(Pool& pool, Address address, std::size_t bytes);
    void add_latest(Pool& pool);
    void insert_range(Pool& pool, Address address, std::size_t bytes);
    void erase_range(Pool& pool, std::map<Address, std::size_t>::iterator range);
    std::size_t whole_pages(Address address, std::size_t bytes) const;

    // Frees the blocks that other streams are done with; or all, once the device was waited for.
    void collect_waiting(bool all);
    void end_use(std::deque<Use>& uses);  // the first
    // Unmaps what is idle, keeps the pages; the device has to be synchronised.
    void unmap_idle();
    void unmap_idle(Pool& pool);
    // Unmaps pages [first, behind) of a free range; what cannot be unmapped stays free.
    void unmap_pages(Pool& pool, Address first, Address behind, Address range_end);
    void release_spare_pages();

    DeviceMemory& memory_;
    std::size_t page_bytes_;
    std::unordered_map<Address, Block> blocks_;
    std::map<std::pair<Stream, std::size_t>, Pool> pools_;
    std::unordered_map<Address, Waiting> waiting_;
    std::map<Stream, std::deque<Use>> uses_;  // of waiting blocks, in the order of their ends
    std::vector<Pages> spare_pages_;
    std::size_t reserved_bytes_ = 0;
    std::size_t mapped_bytes_ = 0;
    std::size_t idle_bytes_ = 0;  // pages that lie in free ranges as a whole
};

}  // namespace gapless::runtime
