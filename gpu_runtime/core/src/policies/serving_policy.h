// An online allocator beneath PyTorch's.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "allocator/block_statistics.h"
#include "allocator/serving_allocator.h"
#include "device/counting_memory.h"
#include "policies/online_allocator.h"

namespace gapless::runtime {

// Note [Policies beneath PyTorch]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Whether an online allocator is worth it shows in training, not in a replay alone: what
// its calls cost, and what it does beside kernels that run. A policy is its rules and nothing else,
// and calls to it come from one thread at a time.
// Approach. One lock guards a policy and its device, and is held while either is asked. Unlike that
// of planned memory it is also held where the policy waits for the device: the wait is within its
// rules, between looking for memory and taking it, and nobody else may be served meanwhile. Who
// wants the lock then waits as well, with the interpreter's lock perhaps; what a stream was given
// needs neither to come to its end. PyTorch's own allocator waits likewise. Sums by size of request
// are the account's, which tells the statistics of each block; segments and reserved bytes are
// written down at the end of a call. A segment of PyTorch's has memory behind all of it, so a range
// of the policy's is shown in stretches, without what is not mapped.
// While a stream captures, a policy is not asked for memory, see Note [What is asked of the core]
// in decorator.cpp. A block that is freed then asks no more of the device than whether its stream
// is captured, and where it is not, for an event there; neither disturbs a capture.
// Limits. Where a policy has no memory PyTorch's allocator is asked, whose memory the policy does
// not know of. Memory that the device did not take back is reserved, and in no segment.
class ServingPolicy final : public ServingAllocator {
  public:
    // A policy that has no block yet, and its device, of which nobody else asks anything from now
    // on.
    ServingPolicy(OnlineAllocator& policy, const CountingMemory& memory);
    ~ServingPolicy() override { policy_.keep(nullptr); }

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

    OnlineFigures figures() const;
    void reset_peaks();
    // What the device was asked since the beginning, and how long it took.
    DeviceCalls calls() const;
    DeviceCalls nanoseconds() const;
    // Holds the policy against its rules. For tests.
    void check() const;

  private:
    // Holds the lock, and writes down what is reserved before it goes.
    class Call {
      public:
        explicit Call(ServingPolicy& owner) : owner_(owner), lock_(owner.mutex_) {}
        ~Call();
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        ServingPolicy& owner_;
        const std::lock_guard<std::mutex> lock_;
    };

    OnlineAllocator& policy_;
    const CountingMemory& memory_;
    BlockStatistics statistics_;
    mutable std::mutex mutex_;
};

}  // namespace gapless::runtime
