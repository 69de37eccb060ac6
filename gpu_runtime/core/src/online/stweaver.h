// STWeaver: an online allocator that knows one profiled iteration and its plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/address_table.h"
#include "device/device_memory.h"
#include "online/free_ranges.h"
#include "online/online_allocator.h"
#include "online/pending_blocks.h"
#include "online/pytorch_caching.h"
#include "online/request_log.h"
#include "online/stweaver_matcher.h"
#include "online/stweaver_profile.h"

namespace gapless::runtime {

// How requests were served, by their number.
struct StweaverCounts {
    std::uint64_t planned = 0;    // at the planned place
    std::uint64_t displaced = 0;  // by the caching allocator, since the place was taken
    std::uint64_t reused = 0;     // dynamic ones in idle bytes of the pool
    std::uint64_t cached = 0;     // the rest
    // Requested bytes of static requests when requested bytes were at their peak.
    std::size_t static_at_peak = 0;
};

// Note [STWeaver]
// ~~~~~~~~~~~~~~~
// Rationale. Iterations of a training loop make nearly the same requests, so a plan of one
// iteration packs the static ones of all. What varies, as in a mixture of experts, can use bytes
// that the plan leaves idle.
// Approach. This is the paper's run-time allocator. The profile has the planned place of each
// static request, and the idle bytes that each group of dynamic requests may use. The pool is
// reserved with the first request. The matcher says whether a request is static. A static one takes
// its place, a dynamic one the smallest run of free bytes within its space that is large enough.
// The caching allocator serves every other request: one whose place is taken, one that finds no
// room, one that the profile lacks, one of another stream. While memory is kept apart, as for the
// optimizer's state before a plan of the run itself, a second caching allocator serves all: blocks
// that last would else lie among those of the iteration and keep their segments. Nothing but the
// profile and the calls so far decides, so this is causal; what the profile was made from is its
// maker's to say. Without a profile all requests go to the caching allocator.
// Limits. The pool keeps the profile's size. A dynamic block that lives longer than those of its
// group were profiled may lie in a planned place when the static request comes.
class Stweaver final : public OnlineAllocator {
  public:
    explicit Stweaver(DeviceMemory& memory);

    // Serves by this profile from now on. Throws std::invalid_argument where it breaks a rule, and
    // std::logic_error while a block of the pool is in use.
    void adopt(StweaverProfile profile);
    // Adopts a profile in the midst of a run: gives back what is idle and reserves the pool. False,
    // and nothing is given back, where that would reserve more than is reserved. Throws
    // OutOfDeviceMemory, DeviceCallError; then there is no profile.
    bool adopt_for_less(StweaverProfile profile);

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) override;
    bool use_on(Address address, Stream stream) override;
    void settle() override;
    // The pool stays as long as a block of it is in use.
    void give_back() override;
    void begin_iteration() override { matcher_->begin_iteration(); }
    void enter(std::int64_t visit) override {
        visit_ = visit;
        matcher_->enter(visit);
    }

    // Serves all requests by a caching allocator of their own, or no longer does.
    void keep_apart(bool is_apart) { is_apart_ = is_apart; }
    // Begins or ends the record of requests and frees, from which a profile is made.
    void record(bool is_recording) { is_recording_ = is_recording; }
    // Returns the rows recorded since the last call. A free counts as complete when it is
    // requested.
    RecordedRows take_rows() { return std::exchange(rows_, {}); }

    // The numbers of counts().
    OwnFigures own_figures() const override {
        return {{"planned_requests", counts_.planned},
                {"displaced_requests", counts_.displaced},
                {"reused_requests", counts_.reused},
                {"cached_requests", counts_.cached}};
    }
    std::vector<OnlineSegment> segments() const override;
    std::optional<LiveBlock> live_block(Address address) const override;

    const StweaverCounts& counts() const { return counts_; }
    // The first address of the pool, 0 if there is none, and its bytes.
    Address pool() const { return pool_; }
    std::size_t pool_bytes() const { return profile_.pool_bytes; }

  private:
    // Throws OutOfDeviceMemory.
    void reserve_pool();
    struct Block {
        Address address = 0;
        std::size_t bytes = 0;
        std::size_t requested = 0;
        StweaverMatcher::Place* place = nullptr;  // of a planned one
        bool is_used = false;
        std::size_t pending = 0;
        std::vector<Stream> used_on;
    };

    Address serve(std::size_t requested, Stream stream);
    Address hand_out(std::size_t offset, std::size_t bytes, std::size_t requested,
                     StweaverMatcher::Place* place);
    void come_back(Block& block);
    void release_pool();
    void write_down(RecordedAction action, Address address, std::size_t bytes, Stream stream);
    bool is_in_pool(Address address) const {
        return pool_ != 0 && address - pool_ < profile_.pool_bytes;
    }

    DeviceMemory& memory_;
    StweaverProfile profile_;
    std::unique_ptr<StweaverMatcher> matcher_;
    PytorchCaching cache_, apart_;
    Address pool_ = 0;
    FreeRanges free_;  // offsets within the pool
    std::deque<Block> blocks_;
    std::vector<Block*> unused_blocks_;
    AddressTable<Block> live_;
    PendingBlocks<Block> pending_;
    StweaverCounts counts_;
    bool is_apart_ = false;
    bool is_recording_ = false;
    RecordedRows rows_;
    std::int64_t visit_ = 0;
    std::size_t static_bytes_ = 0;  // requested, in planned blocks that live
};

}  // namespace gapless::runtime
