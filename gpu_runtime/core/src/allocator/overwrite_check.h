// Finds writes to free memory, made by programs that use a tensor after freeing it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "allocator/block.h"
#include "device/forwarding_memory.h"

namespace gapless::runtime {

// A block before or after the overwritten bytes were free.
struct Tenant {
    Address address = 0;
    std::size_t bytes = 0;  // requested bytes; 0 if there is no such block
    Stream stream = kNoStream;
    std::int32_t request = -1;  // number of the request in its step; -1 outside of steps
    std::int64_t step = -1;     // the step that freed it, or that requested it
};

// Free memory that a program wrote to.
struct Overwrite {
    Address address = 0;       // of the first changed word
    std::int64_t offset = -1;  // of that word in the arena, or -1 outside of it
    std::size_t bytes = 0;     // in whole words
    Tenant before;             // none if the memory was new, or the record is gone
    Tenant after;              // none if the memory was not handed out again
};

// Note [Writes after free]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Some programs let a kernel work on a tensor after the host freed the tensor, on a
// stream that was not recorded, or let it write beyond the tensor's end. This corrupts the block
// that a plan places there next. Without a plan, the same bug stays hidden as long as the bytes
// happen to be idle.
// Approach. All free memory is stamped with words derived from their addresses. New memory is
// stamped when it is mapped, on a stream of this check. A block is stamped when it is freed, on its
// own stream, which first waits for the other streams that were recorded for the block. Before
// bytes are handed out again, they are compared on the stream that gets them, after its waits.
// Before bytes are unmapped, they are compared a last time. All of this is device work in stream
// order. The host reads the findings only when the caller asks. Bytes that get another address are
// compared at the old one and stamped at the new one, both on the stream of this check.
// Why the order is right. The heap makes the next user of a block wait for everything that the
// block's stream was given until the free or later. The stamp was submitted before that. The
// block's own stream waits for the other streams before it stamps. The heap does not know of stamps
// of new memory, nor of comparisons of all free memory. Such bytes are *loose*: their next user
// waits, on the device, for the stream that stamped or compared them. The host waits under the
// allocator's lock only for the last comparison before unmapping.
// Limits. A block that is freed while its stream is captured is not stamped, because the graph
// would replay the stamp. A block is not stamped either if the device refuses a call. Unstamped
// bytes are not compared. Reads of free memory are seen only by their results.

// An adaptor between an allocator and its device. The allocator's lock guards all calls except
// synchronize() and await().
class OverwriteCheck final : public ForwardingMemory {
  public:
    // Throws DeviceCallError if the device cannot stamp and compare.
    explicit OverwriteCheck(DeviceMemory& memory);

    void unmap(Address address, std::size_t bytes) override;
    void hide(Address address, std::size_t bytes) override;
    void show(Address address, std::size_t bytes) override { stamp_new(address, bytes); }
    Address allocate_plain(std::size_t bytes) override;
    void release_plain(Address address) override;

    // Called when a block in use is about to be freed.
    void leave(const Block& block, std::int64_t step) noexcept;
    // Called when a block has just come into use.
    void enter(const Block& block, std::int64_t step) noexcept;

    // Compares all free memory. Throws DeviceCallError.
    void compare_all();
    // Number of comparisons made so far.
    std::uint64_t comparisons() const { return next_; }
    // Returns the findings of the first `comparisons` comparisons that the device has completed and
    // that were not returned before.
    std::vector<Overwrite> take(std::uint64_t comparisons);

  private:
    // Free bytes with one history.
    struct Past {
        Address begin;
        Address end;
        Tenant tenant;
        Stream stream;  // the stream that stamped them
        bool is_stamped = false;
        bool is_loose = false;
    };
    struct Comparison {
        std::vector<Past> pasts;
        Tenant after;
    };

    template <class Release>
    void look_last(Address begin, Address end, Release release);
    void stamp_new(Address address, std::size_t bytes) noexcept;
    void stamp_freed(const Block& block);
    void make_wait_for(const Past& past, Stream stream);
    void compare_stamped(const Comparison& comparison);
    std::map<Address, Past>::iterator first_behind(Address begin);
    std::vector<Past> cut(Address begin, Address end);
    const Comparison& add(Comparison comparison);

    const Stream own_stream_;
    std::map<Address, Past> free_;  // by begin address
    std::map<Address, std::size_t> plain_;
    std::deque<Comparison> comparisons_;  // the last ones, not asked about yet
    std::uint64_t next_ = 0;              // number of the next comparison
    std::set<std::uint64_t> taken_;
};

}  // namespace gapless::runtime
