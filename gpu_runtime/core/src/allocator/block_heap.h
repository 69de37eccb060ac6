// The heap of all blocks of a device. No two blocks share a byte, whatever a plan says.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator/address_table.h"
#include "allocator/block.h"
#include "allocator/block_statistics.h"
#include "allocator/extent.h"
#include "allocator/node_pool.h"
#include "allocator/paused_run.h"
#include "allocator/shadow_allocator.h"
#include "allocator/step_plan.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Note [Plans are hints]
// ~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan that is trusted must be proven right for each request, and programs deviate:
// they hold a tensor longer, make one more request, or take another branch. Each such case needed a
// rule of its own. Requests that no rule covered went to a second source of memory, while the first
// was idle.
// Approach. One list of blocks, ordered by address, says which bytes are free. A planned request
// names its best address. It gets that address if every byte there is free, and any other place if
// not. A wrong plan, a wrong guess of the running step, or a damaged file can cost memory, but
// never data. The planned addresses lie in the *arena*, one extent whose free ranges are looked up
// by address. All other free ranges are looked up by size. While a step follows a plan, a request
// without a place stays outside of the arena, where it could block a planned place. At all other
// times the arena is *open*: its free ranges are looked up by size too, once the heap may not grow
// outside. So a step that leaves its plan finds the memory of the places that it does not reach,
// and no frame has to move. The batch that a loader makes between two steps finds a place outside,
// as long as its memory is within the bound. Streams. A free range belongs to the stream that used
// it last, because work that is submitted later to the same stream runs later. In the arena, a plan
// may give a range to another stream. That stream then waits, on the device, for marks that were
// set when the block was freed. If the plan did not foresee the hand-over, no mark was set at the
// free; then marks are set now, which is later and hence safe. The host never waits. Outside of the
// arena, a block that other streams used returns only after these streams are seen to be done, so
// that no stream waits for another without need.

// Note [Holes between blocks]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Frames that move leave holes behind. A heap that grows only at its end never fills
// these holes: its free memory splits into ever shorter pieces, the next large request finds no
// piece that is long enough, and frames move again. A recorded mixture of experts moved 0.75 GiB in
// every step.
// Approach. A request that fits nowhere gets the stretch of free blocks and holes, at the end or in
// between, in which the fewest bytes are unmapped. The missing pages are mapped there. The recorded
// program moves nothing after warm-up.
// Limits. Whenever memory is missing, all holes of the heap are examined. Some programs still move
// as much: another recorded mixture does until its bound is loosened, and then 0.06 GiB a step for
// some steps.

// Note [Ranges of whole pages]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A frame moves only if all of its bytes are idle. One block of an odd size shifts all
// blocks behind it, so that each of them shares its first and last frame with a neighbour. A gap
// between two blocks then has a frame less than its bytes, which no other gap can use.
// Approach. Memory for requests of whole pages is made in a range of addresses of its own. Its
// blocks begin at a page, and what they leave is whole frames. Memory for other requests, which
// are small ones above all, is made in another range. The smallest free range of both serves:
// only new memory is kept apart. On 36 recordings with no budget of moves, reserved bytes were
// above the shadow at 241 events by at most 6 MiB; with one range, at 2,650 by up to 80 MiB.
// Limits. A request without whole pages may take a free range of the other kind. Blocks behind it
// share frames until it is free again.

// Note [Two mappings of one frame]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A frame whose work is not done cannot be unmapped, so a host that moves it has to wait
// for the device. The wait ends the run-ahead of the host, which costs far more than the move.
// Approach. A driver maps one allocation at several addresses, and both show the same bytes. An
// idle frame is mapped at its new address while its old mapping stays. The old block is *vacated*:
// its addresses serve no request. A stream that gets the frame waits, on the device, for the
// streams that used it last; if it is the only one, stream order is enough. So two uses of a frame
// never overlap in time, whatever their addresses. CUDA calls writes through one mapping incoherent
// with reads through another until the writing operation is complete. Operations that are ordered
// by a stream or an event are complete before the next one begins, so they see each other's bytes.
// If the frame is idle again when its old address is wanted, the old mapping is used again, which
// calls no device. Old mappings are unmapped when they have 1/4 as many addresses as there is
// memory, when frames go back to the device, or when a planned place needs a frame but its old
// frame is in use. All known streams are marked then, and once these marks are done, all mappings
// that were vacated before are unmapped together. These marks are later than the last use, also for
// a stream that nobody told of and that a known stream waited for meanwhile. A *retired* frame goes
// back to the device in the same way. A host that is many steps ahead waits long for its marks.
// Until then the frame is reserved, so it serves any request that would need a new page.
// Limits. A kernel that runs while another writes must not see one frame at two addresses; the heap
// gives a frame to one block at a time. Until a known stream is seen to be done, a vacated address
// serves no request.

// Note [Streams that nobody told of]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A stream may use another stream's block without record_stream(), if the program makes
// the owner wait before memory is reused. Fully sharded training does so: the reduction stream
// requested the gradients, the optimizer reads and frees them on another stream, and the reduction
// stream waits for it at the next reduction. PyTorch's allocator keeps such bytes for the reduction
// stream, so this is safe there. A mark of the reduction stream alone, set at the free, does not
// cover the optimizer. Frames that were unmapped after such a mark alone once crashed a training.
// Approach. Every user of a block submitted its work before the block was freed. So bytes that
// change their stream get marks of all *known* streams, set at the free or later: all streams that
// ever requested a block, and those that are named by record_stream(), until this use is done.
// Limits. The marks miss a stream that never requested a block and that was not named by
// record_stream() of late.

// Note [Streams that are gone]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A program may destroy a stream that used blocks; PyTorch's own streams are never
// destroyed. To reuse such bytes on another stream, the heap would have to mark the destroyed
// stream, which the device refuses from then on.
// Approach. All work of the stream was submitted before it was destroyed, so the work is done once
// the device has been waited for. Until then no stream gets the destroyed stream's ranges in the
// arena, and blocks that it used are withheld. The host waits at the end of the step, without
// holding the lock. Then the ranges have no owner. Until then, frames of
// such ranges do not move, and old mappings stay.
// Limits. If a new stream has the same handle by then, the heap takes both for one stream, as
// PyTorch's allocator does. Waiting for this device says nothing of the work of a destroyed stream
// of another device.

class BlockHeap {
  public:
    // With `is_plain`, memory comes from plain allocations, whose pages cannot move.
    BlockHeap(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics,
              ShadowAllocator& shadow);
    BlockHeap(const BlockHeap&) = delete;
    BlockHeap& operator=(const BlockHeap&) = delete;
    // Does not give memory back: blocks may outlive the driver.
    ~BlockHeap() = default;

    // Each returns a block in use of at least `bytes` > 0 bytes, or null if no such range is free.
    Block* place(std::size_t bytes, Stream stream);
    // Also returns null if a stream that is captured or destroyed would have to wait or be waited
    // for. Throws DeviceCallError if the device refuses the wait; then nothing was placed.
    Block* place_at(std::int64_t offset, std::size_t bytes, Stream stream);

    // The same outside of the arena, at an offset from the block in use at `beside`.
    Block* place_beside(Address beside, std::int64_t offset, std::size_t bytes, Stream stream);

    // Returns the block in use that begins at an address, or null.
    Block* find(Address address) const { return used_.find(address); }
    // The same in the arena, in ranges of the stream or of nobody; null while the arena is shut.
    Block* place_in_open_arena(std::size_t bytes, Stream stream);
    void open_arena();
    void shut_arena();
    // Returns true if a block in use, or a withheld one, lies in the arena.
    bool is_arena_in_use() const;
    // Makes the arena ordinary memory. Throws DeviceCallError if the device refuses a wait.
    void close_arena();
    bool is_in_arena(const Block& block) const { return block.extent == arena_; }
    // Throws DeviceCallError if the device refuses a mark that the block needs. The block is then
    // withheld until the device has been waited for.
    void free(Block& block);
    // Notes that a stream that did not allocate the block uses it.
    void use_on(Block& block, Stream stream);

    // Returns the bytes that must be mapped before place() succeeds.
    std::size_t missing_for(std::size_t bytes, Stream stream);
    // Maps these bytes, from spare frames first. Pages that were mapped before an exception stay
    // mapped. Throws OutOfDeviceMemory, DeviceCallError.
    void grow(std::size_t bytes, Stream stream);
    // Returns the number of unmapped bytes in a range of the arena.
    std::size_t arena_missing(std::size_t offset, std::size_t bytes) const;
    // Returns true if a block would fit at this range of the arena once its unmapped bytes are
    // mapped.
    bool is_unmapped(std::size_t offset, std::size_t bytes) const;
    // Maps a whole range of the arena, rounded outwards to pages. Throws what grow() throws.
    void fill_arena(std::size_t offset, std::size_t bytes);
    // Maps the first `bytes` bytes of the arena as far as spare frames suffice. Throws what grow()
    // throws.
    void refill_arena(std::size_t bytes);

    // The idle frames that move, in blocks of their own, which are in state `leaving` until they
    // are vacated or put back. gather() takes what place() lacks beyond the spare frames, as far as
    // so much is idle, but nothing from the first `arena_kept` bytes of the arena. See Note [Two
    // mappings of one frame].
    void gather(std::size_t bytes, Stream stream, std::size_t arena_kept);
    // Gathers frames for a range of the arena, none from its first `arena_kept` bytes.
    void gather_for_arena(std::size_t offset, std::size_t bytes, std::size_t arena_kept);
    // Puts back the gathered frames that were not needed.
    void put_back();
    // Uses the old mappings in a range of the arena again, where their frames are idle. Returns
    // false, and changes nothing, if one is not.
    bool recall(std::size_t offset, std::size_t bytes);
    // Uses all old mappings of the arena again whose frames are idle.
    void recall_arena();
    // Uses old mappings again so that place() succeeds, but no frame from the first `arena_kept`
    // bytes of the arena. Returns false, and changes nothing, if none serve.
    bool recall_for(std::size_t bytes, Stream stream, std::size_t arena_kept);
    // Bytes of frames that can be mapped without a new one.
    std::size_t available_bytes() const { return spare_bytes() + gathered_bytes_; }
    // Bytes of frames that moved to another address since the beginning.
    std::size_t moved_bytes() const { return moved_bytes_; }
    // Retires idle frames of `bytes` bytes; in the arena only behind `arena_kept` bytes.
    // unmap_old() gives them back to the device.
    void retire(std::size_t bytes, std::size_t arena_kept);
    std::size_t retired_bytes() const { return retired_bytes_; }
    // Frees retired blocks for a request of the stream: one that has `bytes` bytes, if there is
    // one, or else several, the last ones first.
    void reuse_retired(std::size_t bytes, Stream stream);
    // Frees all of them.
    void reuse_retired() { reuse_retired(retired_bytes_, kNoStream); }
    // Unmaps old mappings, and releases retired frames, whose streams are done. The host does not
    // wait.
    void unmap_old();

    // Idle frames that are being unmapped. The work has three parts, take_idle(), await() and
    // finish(), so that the caller need not hold its lock while the device is waited for.
    struct Leaving {
        // Adjacent blocks that together cover whole frames.
        struct Run {
            Block* first;
            Block* last;
        };
        std::vector<Run> runs;
        StreamMarks marks;
        std::size_t bytes = 0;
        std::int64_t generation = 0;  // old mappings up to this one are unmapped too
    };
    // Takes all idle frames; in the arena only those behind its first `arena_kept` bytes.
    Leaving take_idle(std::size_t arena_kept);
    // Marks all known streams but destroyed ones.
    StreamMarks known_marks();
    void await(const Leaving& leaving) const;
    // Unmaps the frames and makes them spare. Throws DeviceCallError if the device refuses; frames
    // that were not unmapped are free as before.
    void finish(const Leaving& leaving);
    // Cancels take_idle(): the blocks are free again.
    void put_back(const Leaving& leaving);
    // Gives all spare frames back to the device.
    void release_spare();

    // Withheld blocks wait for other streams; ranges of destroyed streams wait for the device. As
    // with Leaving, the work has three parts.
    bool has_withheld() const { return !withheld_.empty(); }
    bool has_gone() const { return !gone_.empty(); }
    struct Unsettled {
        std::int64_t ticket;  // settles blocks withheld with a smaller ticket
        StreamMarks marks;    // streams of other devices are waited for one by one
        std::set<Stream> gone;
    };
    Unsettled unsettled();
    void await(const Unsettled& unsettled) const;
    void settle(const Unsettled& unsettled);
    // Frees the withheld blocks whose other streams are seen to be done.
    void collect();
    // Frees all withheld blocks: their own streams wait, on the device, for the other streams.
    // Throws DeviceCallError.
    void free_withheld();

    // Pause: see Note [Paused memory]. The caller has waited for the device and taken the idle
    // frames. pausable_runs() returns all other memory; give_up() gives it back to the device, and
    // resume() maps it again at the same addresses. All throw DeviceCallError.
    bool has_old_mappings() const { return !vacated_.empty() || !retired_.empty(); }
    // Returns true while a graph is captured; the host cannot wait for the device then.
    bool is_capturing();
    // With `keeps`, copies the contents to the host. Throws OutOfHostMemory. Changes nothing else.
    PausedRuns pausable_runs(bool keeps);
    void give_up(PausedRuns runs);
    // Gives back the host's memory that no paused block needs.
    void release_host();
    // Throws OutOfDeviceMemory. After an exception, all runs are still paused.
    void resume();
    bool is_paused() const { return !paused_.empty(); }
    bool is_paused(const Block& block) const;
    bool has_memory(const Block* block) const;
    const PausedRuns& paused_runs() const { return paused_; }

    bool is_plain() const { return is_plain_; }
    std::size_t reserved_bytes() const { return reserved_bytes_; }
    // Mapped bytes of the arena.
    std::size_t arena_bytes() const { return arena_bytes_; }
    // Number of ranges with memory, without a hole.
    std::size_t stretches() const { return static_cast<std::size_t>(stretches_); }
    // Returns the heap's extent in which an address lies, in use or not, or null.
    const Extent* extent_of(Address address) const;
    const std::list<Extent>& extents() const { return extents_; }
    // The first block of an extent; `behind` leads to the others.
    const Block* first_of(const Extent& extent) const { return first_.at(&extent); }
    const Block* first_of_arena() const { return arena_ == nullptr ? nullptr : first_.at(arena_); }

    // Checks all invariants of the heap; throws std::logic_error if one is broken. For tests.
    void check() const;

  private:
    // A key of the index by size. It copies what comparisons need, so that they do not read the
    // block.
    struct Sized {
        std::size_t bytes;
        Address address;
        Block* block;
        bool operator<(const Sized& other) const {
            return bytes != other.bytes ? bytes < other.bytes : address < other.address;
        }
    };
    using BySize = std::pmr::set<Sized>;
    // An entry of the index by address. When a range grows or shrinks at its beginning, `address`
    // changes in place: the order relative to its neighbours stays, so the tree needs no update.
    struct Placed {
        mutable Address address;
        Block* block;
        bool operator<(const Placed& other) const { return address < other.address; }
        friend bool operator<(const Placed& range, Address at) { return range.address < at; }
        friend bool operator<(Address at, const Placed& range) { return at < range.address; }
    };
    using ByAddress = std::pmr::set<Placed, std::less<>>;
    static Sized sized(Block& block) { return {block.bytes, block.address, &block}; }
    // The free ranges and holes of one stream outside of the arena, in extents of whole pages or in
    // others; the latter with its free ranges in the open arena.
    struct StreamHeap {
        explicit StreamHeap(std::pmr::memory_resource* memory)
            : free(memory), holes(memory), in_arena(memory) {}
        BySize free;
        BySize holes;
        BySize in_arena;
        Block* tail = nullptr;  // the hole at which the heap grows
        // The block that was freed last. It is not indexed and not merged yet, because programs
        // often request the size that they have just freed.
        Block* latest = nullptr;
    };
    struct Withheld {
        std::size_t streams;  // number of streams that are not known to be done
        std::int64_t ticket;
    };
    struct Use {
        std::shared_ptr<StreamMark> mark;
        Block* block;
        std::int64_t ticket;
    };
    // A block that was freed while one of its streams was captured.
    struct Unmarked {
        Block* block;
        std::vector<Stream> streams;
    };

    std::size_t spare_bytes() const { return spare_.size() * page_bytes_; }
    bool is_whole(std::size_t bytes) const { return bytes % page_bytes_ == 0; }
    StreamHeap& heap_of(Stream stream, bool is_whole);
    StreamHeap& heap_of(const Block& block) {
        return heap_of(block.stream, block.extent->is_whole());
    }
    Block* new_block();
    void drop(Block& block);
    // Splits a block. The block keeps its first `bytes` bytes; returns the rest, in the same state
    // and not indexed.
    Block* split(Block& block, std::size_t bytes);
    // Splits off the first `bytes` bytes of a free arena block and returns them, not indexed. The
    // block keeps the rest and its index entry.
    Block* split_front(Block& block, std::size_t bytes, ByAddress::iterator entry);
    // Merges the block behind into this one.
    void absorb(Block& block);
    // Merges the block before, which is not indexed, into a free block of the arena.
    void absorb_before(Block& block);
    Block* use(Block& block, std::size_t bytes, Stream stream);

    void index(Block& block);
    void unindex(Block& block);
    bool is_one_range(const Block& one, const Block& other) const;
    // Merges a free, not yet indexed block with its free neighbours, and indexes the result.
    Block* add_free(Block& block);
    void add_hole(Block& block);
    void add_latest(StreamHeap& heap);
    void take_out(Block* block);
    // Marks a stream. Records the stream as gone if it was destroyed. Throws what StreamMark
    // throws.
    std::shared_ptr<StreamMark> mark(Stream stream);
    std::vector<Stream> known_streams();
    void forget(Stream stream);
    bool is_marked(const Block& block) const;
    StreamMarks marks_of(const std::vector<Stream>& streams);
    void disown(const std::set<Stream>& gone);
    void withhold(Block& block, const StreamMarks& marks);
    void mark_withheld();
    void come_back(Block& block);
    void finished(const Block& block) {
        statistics_.finished(block.requested, block.bytes);
        shadow_.free(block.in_shadow);
    }
    void replace_arena(std::size_t bytes);
    struct Range {
        Address begin = 0, end = 0;
    };
    // A range of free blocks, beginning in `first`.
    struct Idle {
        Block* first;
        Address begin, end;
    };
    // Frames to be mapped side by side: `unused` ones, then those that leave the sources.
    struct Row {
        std::vector<Pages> frames;
        std::size_t unused = 0;
        std::vector<Block*> sources;
    };
    // Gathers idle frames until they have `bytes` bytes, but none from `kept`.
    void gather_frames(std::size_t bytes, std::vector<Range> kept);
    Range arena_range(std::size_t offset, std::size_t bytes) const;
    Block* gather_rows(Block* block, Address first, Address behind);
    Block* gather_row(Block* block, Address begin, Address end);
    std::pair<Stream, StreamMarks> users_of(const Block& first, Address end);
    void vacate(Block& block);
    void arrive(Block& block, const Block* source);
    // Frames that return to an old mapping: their address `now`, in a range of blocks that begins
    // with `idle`, and their `place`.
    struct Recalled {
        Address now;
        Block* idle;
        Address place;
        std::size_t bytes;
    };
    using Recall = std::vector<Recalled>;
    std::optional<Address> find_recall(Recall& found, const Block& first, const Range& range,
                                       const std::vector<Idle>& idle) const;
    bool recall(Recall& found, Stream stream);
    Block* cut_vacated(Address begin, std::size_t bytes);
    std::vector<Idle> idle_by_address(std::size_t arena_kept);
    void gets_memory(const Block& block);
    void loses_memory(const Block& block);
    void unmap_old(std::int64_t generation);
    std::vector<Idle> idle_ranges(std::vector<Range> kept);
    static void add_idle(std::vector<Idle>& idle, Idle range, const std::vector<Range>& kept);
    bool is_needed(const Block*& block, Address begin, Address end) const;
    void restore(Address begin, const PausedRun& run);
    void withdraw();
    std::vector<Pages> unmap_frames(Extent& extent, Address begin, Address end);
    void count_stretches(const PausedRun& run, int change);
    void end_pause(Address begin, const PausedRun& run);
    void reserve_arena(std::size_t bytes);
    void fill(Block* hole, Address begin, Address end);
    void take_shared_frames(Leaving& leaving);
    void take_idle_extents(Leaving& leaving, std::size_t arena_kept);
    void take(Leaving& leaving, Block* block, Address first, Address last);

    void settle_extents();
    // A place for a block, and the bytes that must be mapped there first.
    struct Gap {
        Range range;  // empty if the place is at the tail
        std::size_t missing;
        bool is_at_tail() const { return range.begin == range.end; }
    };
    Gap gap_for(StreamHeap& heap, std::size_t bytes);
    void improve(Gap& best, const Block& first, const Block& last, std::size_t bytes) const;
    void fill_gap(StreamHeap& heap, const Range& range);
    Block* hole_for(Stream stream, std::size_t bytes);
    std::size_t free_before(const Block* hole) const;
    void map_at(Block*& hole, std::size_t bytes);
    void require_free(std::size_t bytes);
    void obtain(Row& row, std::size_t count);
    void put_back(const Row& row);
    Pages new_frame();
    void add_plain(std::size_t bytes, Stream stream);
    Extent& add_extent(Extent extent, BlockState state, Stream stream);

    // Makes a stream wait for other streams' work in free blocks.
    void make_wait(std::span<Block* const> blocks, Stream stream);

    DeviceMemory& memory_;
    BlockStatistics& statistics_;  // is told when freed blocks return
    ShadowAllocator& shadow_;
    const bool is_plain_;
    const std::size_t page_bytes_;
    NodePool nodes_;
    std::deque<Block> blocks_;
    std::vector<Block*> unused_blocks_;
    std::list<Extent> extents_;
    std::map<const Extent*, Block*> first_;
    std::map<Address, Extent*> extent_at_;
    std::map<std::pair<Stream, bool>, StreamHeap> heaps_;  // by stream and is_whole()
    std::array<StreamHeap*, 2> last_heaps_{};              // those of `last_stream_`
    Stream last_stream_ = kNoStream;
    AddressTable<Block> used_;

    Extent* arena_ = nullptr;
    std::size_t arena_bytes_ = 0;
    bool is_arena_open_ = true;
    ByAddress arena_free_;
    ByAddress arena_holes_;

    std::map<Block*, Withheld> withheld_;
    std::int64_t next_ticket_ = 0;
    std::map<Stream, std::deque<Use>> uses_;  // of withheld blocks, oldest first
    std::vector<Unmarked> unmarked_;          // withheld, not marked yet
    std::set<Stream> gone_;                   // destroyed, and the device not waited for since
    std::vector<Stream> owners_;              // streams that ever requested a block
    // The last mark of streams that used another stream's block, as long as a free block has it.
    std::map<Stream, std::weak_ptr<StreamMark>> guests_;
    Stream last_owner_ = kNoStream;
    PausedRuns paused_;
    std::shared_ptr<const HostMemory> host_;  // for the next pause
    std::vector<Pages> spare_;                // mapped nowhere
    std::vector<Block*> gathered_;
    std::size_t gathered_bytes_ = 0;
    std::size_t moved_bytes_ = 0;
    std::unordered_map<Pages, Address> current_;  // where a mapped frame is in use
    std::map<Address, Block*> vacated_;
    std::size_t vacated_bytes_ = 0;
    std::deque<Block*> retired_;  // by the generation that releases them
    std::size_t retired_bytes_ = 0;
    bool is_place_missing_ = false;  // a block holds the frame of a place of the arena
    std::int64_t generation_ = 0;    // of the blocks that are vacated now
    std::int64_t closed_ = -1;       // generation that is unmapped once `closing_marks_` are done
    StreamMarks closing_marks_;
    std::vector<Stream> covered_;  // streams that wait for the work in all blocks freed so far
    std::ptrdiff_t stretches_ = 0;
    std::size_t reserved_bytes_ = 0;
};

}  // namespace gapless::runtime
