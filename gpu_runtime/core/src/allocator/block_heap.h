// All blocks of a device: no two share a byte, whatever a plan says about where they best lie.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <span>
#include <vector>

#include "allocator/address_table.h"
#include "allocator/block.h"
#include "allocator/block_statistics.h"
#include "allocator/extent.h"
#include "allocator/node_pool.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Where a new block goes.
enum class Placement : std::uint8_t {
    best_fit,      // into the smallest free range of its stream
    largest_hole,  // at the beginning of the largest one
    in_order,      // behind the block that was placed last, see Note [Blocks in order]
};

// A call to the device costs as much for a large frame as for a page, but a large one stays as a
// whole where one block in it does.
enum class FrameSize : std::uint8_t { page, large };

// Note [Plans are hints]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan that is trusted has to be proven right for each request, and programs deviate:
// they hold a tensor longer, ask for one more, come to another branch. Each such case needed a rule
// of its own, and what no rule covered went to a second source of memory, beside an idle first one.
// Approach. One list of blocks by address says what is free. A planned request names the address at
// which it would best lie; it gets it where every byte of it is free, and any other place where
// not. A wrong plan, a wrong guess about which step runs, a damaged file can cost memory, never
// bytes. The planned addresses lie in the *arena*, one extent whose free ranges are looked up by
// address; those of all others by size. What no plan expects stays outside of the arena as long as
// there is room, since what lies in it may be in the way. Streams. A free range belongs to the
// stream whose work used it last: work that is submitted later to the same stream runs later. In
// the arena a range may go to another stream all the same, as planned. That one then waits, on the
// device, for marks of what streams had been given when the block was freed; where none were made,
// because the plan did not foresee it, for marks made now, which are later and hence safe as well.
// The host never waits. Outside of the arena a block that other streams used comes back when
// they are seen to be done, so that none waits for another without need.

// Note [Blocks in order]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. In the first steps nobody knows which requests will outlive them. A best fit puts the
// state of an optimizer into holes between activations, and when those have moved to an arena each
// of its tensors keeps a frame that holds little else.
// Approach. Addresses are plenty: a request gets those behind the last block, as long as the memory
// for them stays in bounds. Beyond, a large one begins the largest hole, behind which the next ones
// lie: when an optimizer makes its state, that is where the activations were. A small one gets the
// smallest hole, since holes less than a frame are in frames that stay anyway. So what a program
// makes together lies together, also what outlives the step, and frames, small ones now, move
// only for what fits into no hole: recorded programs moved 25 to 41 GiB in their first steps when
// they filled no hole at all, and now move 4 to 11. A step of many microbatches would go on moving:
// when all that lives has moved twice, blocks go where they fit best.
// Limits. Where what outlives a step is made one by one between what does not, each piece keeps up
// to two pages.

// Note [Holes between blocks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Frames that move leave holes behind. A heap that grew at its end alone never filled
// them: free memory fell into ever shorter pieces, the next large request found none that was long
// enough, and frames moved again. A recorded mixture of experts moved 0.75 GiB in every step.
// Approach. A request that fits nowhere gets the stretch of free blocks and holes in which the
// least is missing, be it at the end or between others, and that is filled. That program moves
// nothing any more once it has warmed up. Blocks in order go to the end all the same, since where
// they lie is what that placement is for. Limits. All holes of the heap are looked at, as often as
// memory is missing. Not every program moves less: another recorded mixture moves as much until its
// bound is loosened, and 0.06 GiB a step for some steps after it.

// Note [Streams that nobody told of]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A stream may use a block that another one asked for without record_stream(), where the
// program lets the first one wait before it uses memory again: fully sharded training frees its
// gradients, which the stream of reductions asked for, while the optimizer reads them elsewhere,
// and has that stream wait at the next reduction. PyTorch's allocator keeps such bytes for that
// stream, so that this is safe there. A mark of that stream alone, made when the block was freed,
// says nothing of the optimizer; frames that left by it once ended a training.
// Approach. Whoever used a block was given its work before the block was freed. So bytes that
// change their stream have marks of all streams that ever had a block, made at the free or later,
// and frames leave when the device as a whole is done.
// Limits. Bytes that change their stream are not held back by one that never had a block of its own
// nor was told of by record_stream().

// Note [Streams that are gone]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A program may destroy a stream that used blocks; PyTorch's own streams never die. Who
// gets such bytes next would have the stream marked, which the device refuses ever after.
// Approach. All that the stream had was submitted before it was destroyed, so it is done when the
// device was waited for once. Until then a range of it in the arena goes to nobody, and a block
// that it used is withheld. The host waits, without the lock, at the end of the step; then its
// ranges belong to nobody. Frames of it that move wait for the device as a whole.
// Limits. A handle that names a new stream by then is seen as one stream with the former, as by
// PyTorch's allocator. What a stream of another device did before it was destroyed is not known to
// be done when this one was waited for.

class BlockHeap {
  public:
    // With `is_plain` memory comes by plain allocations, which do not move.
    BlockHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics);
    BlockHeap(const BlockHeap&) = delete;
    BlockHeap& operator=(const BlockHeap&) = delete;
    // Gives back nothing: what lives here may outlive the driver.
    ~BlockHeap() = default;

    // Each returns a block in use of `bytes` > 0 rounded up, or null where there is no such range.
    Block* place(std::size_t bytes, Stream stream, Placement placement);
    // Null also where a stream would have to be waited for, or to wait, that is captured or gone.
    // Throws DeviceCallError where it cannot be made to wait; then nothing was placed.
    Block* place_at(std::int64_t offset, std::size_t bytes, Stream stream);
    Block* place_in_arena(std::size_t bytes, Stream stream);

    // The block in use that begins at an address, or null.
    Block* find(Address address) const { return used_.find(address); }
    bool is_in_arena(const Block& block) const { return block.extent == arena_; }
    // Where the device refuses to mark what has to be waited for, throws DeviceCallError; the block
    // is withheld until the device was waited for.
    void free(Block& block);
    // The block is used by a stream that did not allocate it.
    void use_on(Block& block, Stream stream);

    // Memory to be mapped before a block can be placed.
    std::size_t missing_for(std::size_t bytes, Stream stream, Placement placement);
    // Maps it, from spare frames first. What was mapped before it throws stays.
    // Throws OutOfDeviceMemory, DeviceCallError.
    void grow(std::size_t bytes, Stream stream, Placement placement, FrameSize frame_size);
    // Of a range of the arena, the bytes that are not mapped.
    std::size_t arena_missing(std::size_t offset, std::size_t bytes) const;
    // Whether nothing but memory is missing for a block there.
    bool is_unmapped(std::size_t offset, std::size_t bytes) const;
    // Maps all of a range of the arena, and up to a page around it. Throws as grow() does.
    void fill_arena(std::size_t offset, std::size_t bytes);
    // Maps what spare frames are enough for of the arena's first bytes. Throws as grow() does.
    void refill_arena(std::size_t bytes);

    // Frames that nothing uses any more, on their way out. In three parts, so that no lock is held
    // while the device is waited for: take_idle(), await(), finish().
    struct Leaving {
        // Blocks side by side, which cover whole frames.
        struct Run {
            Block* first;
            Block* last;
        };
        std::vector<Run> runs;
        StreamMarks marks;
        std::size_t bytes = 0;
        std::size_t frames = 0;
    };
    // All there are; of the arena only behind `arena_kept` bytes.
    Leaving take_idle(std::size_t arena_kept);
    // At most so many bytes and a frame; of the arena only behind `arena_kept` bytes.
    Leaving take_idle(std::size_t bytes, std::size_t arena_kept);
    // What is missing for a block beside spare frames, where there is as much.
    Leaving take_idle_for(std::size_t bytes, Stream stream, Placement placement,
                          std::size_t arena_kept);
    // The same for a place of the arena, from anywhere else.
    Leaving take_idle_for_place(std::size_t offset, std::size_t bytes);
    void await(const Leaving& leaving) const;
    // They become spare. Throws DeviceCallError where the device refuses; what it did not give up
    // is free as before.
    void finish(const Leaving& leaving);
    // They stay after all.
    void put_back(const Leaving& leaving);
    std::size_t spare_bytes() const { return spare_bytes_; }
    // Gives spare frames back to the device.
    void release_spare();

    // Blocks that wait for other streams, and ranges of streams that are gone; as frames on their
    // way out, in three parts.
    bool has_withheld() const { return !withheld_.empty(); }
    bool has_gone() const { return !gone_.empty(); }
    struct Unsettled {
        std::int64_t ticket;  // of those that are withheld later
        StreamMarks marks;    // another device's streams have to be waited for by themselves
        std::set<Stream> gone;
    };
    Unsettled unsettled();
    void await(const Unsettled& unsettled) const;
    void settle(const Unsettled& unsettled);
    // Frees the blocks whose other streams are seen to be done.
    void collect();

    bool is_plain() const { return is_plain_; }
    std::size_t reserved_bytes() const { return reserved_bytes_; }
    // Of the arena, mapped.
    std::size_t arena_bytes() const { return arena_bytes_; }
    // An address of ours, in use or not: the extent that it lies in, or null.
    const Extent* extent_of(Address address) const;
    const std::list<Extent>& extents() const { return extents_; }
    // The first block of an extent; the others follow by `behind`.
    const Block* first_of(const Extent& extent) const { return first_.at(&extent); }
    const Block* first_of_arena() const { return arena_ == nullptr ? nullptr : first_.at(arena_); }

    // Holds every rule of the structure against itself; throws std::logic_error. For tests.
    void check() const;

  private:
    // With what is compared beside the block, which need not be looked at.
    struct Sized {
        std::size_t bytes;
        Address address;
        Block* block;
        auto operator<=>(const Sized&) const = default;
    };
    using BySize = std::pmr::set<Sized>;
    // A range of the arena. One that becomes shorter or longer at its beginning, as far as its
    // neighbours let it, keeps its place in the order, so that the tree stays as it is.
    struct Placed {
        mutable Address address;
        Block* block;
        bool operator<(const Placed& other) const { return address < other.address; }
        friend bool operator<(const Placed& range, Address at) { return range.address < at; }
        friend bool operator<(Address at, const Placed& range) { return at < range.address; }
    };
    using ByAddress = std::pmr::set<Placed, std::less<>>;
    static Sized sized(Block& block) { return {block.bytes, block.address, &block}; }
    // What belongs to one stream, outside of the arena.
    struct StreamHeap {
        explicit StreamHeap(std::pmr::memory_resource* memory) : free(memory), holes(memory) {}
        BySize free;
        BySize holes;
        Block* tail = nullptr;  // the hole at which it grows
        // The block that was freed last, not among the free ones yet nor one with its neighbours:
        // programs like to ask for the size that they have just given back.
        Block* latest = nullptr;
    };
    struct Withheld {
        std::size_t streams;  // that are not known to be done
        std::int64_t ticket;
    };
    struct Use {
        std::shared_ptr<StreamMark> mark;
        Block* block;
        std::int64_t ticket;
    };
    // Freed while a stream was captured.
    struct Unmarked {
        Block* block;
        std::vector<Stream> streams;
    };

    StreamHeap& heap_of(Stream stream);
    Block* new_block();
    void drop(Block& block);
    // The block keeps its first bytes; returns the rest, of the same state, not in any index.
    Block* split(Block& block, std::size_t bytes);
    // Returns its first bytes as a block in no index; the block keeps the rest and its own.
    Block* split_front(Block& block, std::size_t bytes, ByAddress::iterator entry);
    // Takes in the block behind.
    void absorb(Block& block);
    // Lets a free one of the arena take in the block before, which is in no index.
    void absorb_before(Block& block);
    Block* use(Block& block, std::size_t bytes, Stream stream);

    void index(Block& block);
    void unindex(Block& block);
    bool is_one_range(const Block& one, const Block& other) const;
    // A free block, not in the index yet, becomes one with its free neighbours; returns that.
    Block* add_free(Block& block);
    void add_hole(Block& block);
    void add_latest(StreamHeap& heap);
    void take_out(Block* block);
    // Notes a stream that is gone; throws as StreamMark does.
    std::shared_ptr<StreamMark> mark(Stream stream);
    void know(Stream stream);
    void forget(Stream stream);
    StreamMarks marks_of(const std::vector<Stream>& streams);
    void disown(const std::set<Stream>& gone);
    void withhold(Block& block, const StreamMarks& marks);
    void mark_withheld();
    void come_back(Block& block);
    void replace_arena(std::size_t bytes);
    bool is_capturing() const;
    struct Range {
        Address begin = 0, end = 0;
    };
    // A range of free blocks, of which the first is given.
    struct Idle {
        Block* first;
        Address begin, end;
    };
    // At least so many bytes, where there are, and none of `kept`.
    Leaving take_idle(std::size_t bytes, std::size_t arena_kept, const Range& kept);
    void take_idle_frames(Leaving& leaving, std::size_t bytes, std::size_t arena_kept,
                          const Range& kept);
    std::vector<Idle> idle_ranges(Address arena_kept, const Range& kept);
    void open_arena(std::size_t bytes);
    void fill(Block* hole, Address begin, Address end);
    void take_idle_extents(Leaving& leaving, std::size_t bytes, std::size_t arena_kept);
    void take(Leaving& leaving, Block* block, Address first, Address last);

    void settle_extents();
    void split_spare();
    // Where a block has room once what is missing there is mapped.
    struct Gap {
        Range range;  // empty at the tail
        std::size_t missing;
        bool is_at_tail() const { return range.begin == range.end; }
    };
    Gap gap_for(StreamHeap& heap, std::size_t bytes, Placement placement);
    void improve(Gap& best, const Block& first, const Block& last, std::size_t bytes) const;
    void fill_gap(StreamHeap& heap, const Range& range, std::size_t frame_bytes);
    Block* hole_for(StreamHeap& heap, Stream stream, std::size_t bytes);
    std::size_t free_before(const Block* hole) const;
    void map_at(Block*& hole, std::size_t bytes, std::size_t frame_bytes);
    void require_free(std::size_t bytes);
    std::vector<Frame> obtain_row(std::size_t bytes, std::size_t frame_bytes, std::size_t room);
    Frame obtain(std::size_t bytes, std::size_t room);
    void put_back(std::span<const Frame> frames);
    bool join_spare(std::size_t bytes);
    void add_plain(std::size_t bytes, Stream stream);
    Extent& add_extent(Extent extent, BlockState state, Stream stream);

    // For what others did in free blocks side by side.
    void make_wait(const Block& first, const Block& last, Stream stream);

    DeviceMemory& memory_;
    BlockStatistics& statistics_;  // is told when freed blocks come back
    const bool is_plain_;
    const std::size_t page_bytes_;
    NodePool nodes_;
    std::deque<Block> blocks_;
    std::vector<Block*> unused_blocks_;
    std::list<Extent> extents_;
    std::map<const Extent*, Block*> first_;
    std::map<Address, Extent*> extent_at_;
    std::map<Stream, StreamHeap> heaps_;
    StreamHeap* last_heap_ = nullptr;  // of `last_stream_`
    Stream last_stream_ = kNoStream;
    AddressTable<Block> used_;

    Extent* arena_ = nullptr;
    std::size_t arena_bytes_ = 0;
    ByAddress arena_free_;
    ByAddress arena_holes_;

    std::map<Block*, Withheld> withheld_;
    std::int64_t next_ticket_ = 0;
    std::map<Stream, std::deque<Use>> uses_;  // of withheld blocks, in the order of their ends
    std::vector<Unmarked> unmarked_;          // of withheld blocks
    std::set<Stream> gone_;                   // and not waited for since
    std::vector<Stream> known_streams_;       // that ever had a block
    Stream last_known_ = kNoStream;
    std::vector<Frame> spare_;
    std::size_t spare_bytes_ = 0;
    std::size_t reserved_bytes_ = 0;
};

}  // namespace gapless::runtime
