// Finds writes to memory that is free: for programs that use what they have given back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "allocator/block.h"
#include "device/forwarding_memory.h"

namespace gapless::runtime {

// A block that was, or came to be, where something was overwritten.
struct Tenant {
    Address address = 0;
    std::size_t bytes = 0;  // as requested; 0 for none
    Stream stream = kNoStream;
    std::int64_t request = -1;  // its number, from the first of the process on
    std::int32_t kind = -1;     // of its step, in the book of that time
    std::int32_t slot = -1;
    std::int64_t step = -1;  // in which it was freed, or requested
};

// Free memory that somebody wrote to.
struct Overwrite {
    Address address = 0;       // of the first word that is not as it was left
    std::int64_t offset = -1;  // of that in the arena, -1 where it does not lie there
    std::size_t bytes = 0;     // in whole words
    Tenant before;             // none: the memory was new, or it is too long ago
    Tenant after;              // none: nobody was to get it
};

// Note [Writes after free]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A kernel that works on a tensor which the host has freed, on a stream that was not
// recorded, or beyond a tensor's end, spoils what a plan puts there next. Without a plan the same
// bug stays hidden as long as the bytes happen to be idle.
// Approach. Everything that is free is filled with words that follow from their addresses: new
// memory when it is mapped, on a stream of the device's own; a block when it is freed, on its
// stream, which waits for the others that were said to use it. Before bytes are handed out again
// they are compared, on the stream that gets them, after its waits, and a last time before they are
// unmapped, when nobody uses them any more. All is work of the device, in the order of its streams;
// the host reads what was found when somebody asks.
// Why this is in order. The heap has whoever gets a block wait for what the block's stream had been
// given when it was freed or later, and the stamp is submitted before. The other streams' part of a
// stamp is waited for by the block's own. The heap knows nothing of stamps of new memory, nor of a
// comparison of all that is free: such bytes are *loose*. Who gets them waits, on the device, for
// the stream that did it. What happens to bytes before they are unmapped is the only thing that the
// host waits for in the allocator's lock.
// Limits. What is freed while its stream is captured is not stamped: the stamp would be replayed
// with the graph. Nor where the device refuses a call. Such bytes are not compared. Reads are seen
// by their results alone.

// Stands between an allocator and its device; the allocator's lock guards it, but for synchronize()
// and await().
class OverwriteCheck final : public ForwardingMemory {
  public:
    // Throws DeviceCallError where the device cannot do it.
    explicit OverwriteCheck(DeviceMemory& memory);

    void set_access(Address address, std::size_t bytes) override;
    void unmap(Address address, std::size_t bytes) override;
    Address allocate_plain(std::size_t bytes) override;
    void release_plain(Address address) override;

    // A block in use is about to be freed in a step.
    void leave(const Block& block, std::int64_t step) noexcept;
    // It has just come into use.
    void enter(const Block& block, std::int64_t step) noexcept;

    // Compares all that is free. Throws DeviceCallError.
    void compare_all();
    // How many comparisons were made.
    std::uint64_t comparisons() const { return next_; }
    // What the first so many found, where the device is done with them and it was not taken yet.
    std::vector<Overwrite> take(std::uint64_t comparisons);

  private:
    // Free bytes of one past.
    struct Past {
        Address begin;
        Address end;
        Tenant tenant;
        Stream stream;  // that stamped them
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
    std::map<Address, Past> free_;  // by its beginning
    std::map<Address, std::size_t> plain_;
    std::deque<Comparison> comparisons_;  // the last ones that were not asked about
    std::uint64_t next_ = 0;              // comparison's number
    std::set<std::uint64_t> taken_;
};

}  // namespace gapless::runtime
