// An online allocator below PyTorch's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/block_statistics.h"
#include "allocator/serving_allocator.h"
#include "device/counting_memory.h"
#include "online/online_allocator.h"

namespace gapless::runtime {

// Note [Online allocators below PyTorch]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Training shows what a replay cannot: what the calls of an online allocator cost while
// kernels run. An online allocator consists of its rules only, and is called by one thread at a
// time.
// Approach. One lock guards an online allocator and its device during every call. Unlike the lock
// of planned memory it is also held during a host wait: that wait lies between the search for
// memory and its use, and no other request may be served in between. Another thread waits for the
// lock meanwhile, perhaps with the interpreter's lock; the streams finish without either lock.
// PyTorch's own allocator waits in the same way. The account reports each block to the statistics;
// segments and reserved bytes are updated at the end of a call. A segment of PyTorch has memory
// behind all of it, so a range of an online allocator is shown as its mapped stretches.
// An online allocator gets no requests while a stream captures, see Note [Requests to the core] in
// decorator.cpp. A free during a capture asks the device only whether the block's stream is
// captured and, if it is not, for an event; neither call disturbs a capture.
// Limits. PyTorch's allocator serves a request that an online allocator has no memory for, and the
// online allocator does not know of that memory. Memory that the device refused to take back
// counts as reserved, and lies in no segment.
class ServingOnlineAllocator final : public ServingAllocator {
  public:
    // The allocator has no block yet. From now on, only this object calls it and its device.
    ServingOnlineAllocator(OnlineAllocator& allocator, const CountingMemory& memory);
    ~ServingOnlineAllocator() override { allocator_.keep(nullptr); }

    Address allocate(std::size_t bytes, Stream stream) override;
    bool free(Address address) noexcept override;
    bool use_on(Address address, Stream stream) override;
    std::size_t give_back() override;

    bool owns(Address address) const override;
    std::optional<GaplessBlock> block_of(Address address) const override;
    std::optional<GaplessSegment> segment_of(Address address) const override;
    std::vector<SegmentOfBlocks> segments() const override;

    GaplessStatistics statistics() const override;
    void reset_statistics_peaks() override;
    const GaplessGauge& gauge() const override { return statistics_.gauge(); }
    std::mutex& mutex() const override { return mutex_; }

    // The program begins an iteration, or enters a visit; see OnlineAllocator.
    void begin_iteration();
    void enter(std::int64_t visit);
    // Calls `call` while no other thread calls the online allocator.
    template <class F>
    auto with_lock(F call) {
        const Call locked(*this);
        return call();
    }

    OnlineFigures figures() const;
    void reset_peaks();
    OwnFigures own_figures() const;
    // Return the number and the nanoseconds of all device calls so far, by kind.
    DeviceCalls calls() const;
    DeviceCalls nanoseconds() const;
    // Throws std::logic_error if an invariant of the online allocator is broken. For tests.
    void check() const;

  private:
    // Holds the lock during a call, and updates the reserved bytes at its end.
    class Call {
      public:
        explicit Call(ServingOnlineAllocator& owner) : owner_(owner), lock_(owner.mutex_) {}
        ~Call();
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        ServingOnlineAllocator& owner_;
        const std::lock_guard<std::mutex> lock_;
    };

    OnlineAllocator& allocator_;
    const CountingMemory& memory_;
    BlockStatistics statistics_;
    ReservedPart reserved_part_{statistics_};
    mutable std::mutex mutex_;
};

}  // namespace gapless::runtime
