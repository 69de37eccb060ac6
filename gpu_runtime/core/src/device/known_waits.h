// An adaptor that leaves out the waits of a stream that follow from its earlier ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// Note [Waits that are known]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A plan gives the bytes of one stream to another, and the other stream then waits for
// events. Bytes of one block go to several requests, so a stream waited for one event many times:
// of the 904 waits in a recorded step of fully sharded training, most changed nothing. Each costs
// the host a call.
// Approach. A stream runs its work in order. So after a wait for an event of another stream, its
// later work also follows all earlier events of that stream, and everything that the other stream
// had waited for when the event was recorded. Each stream has a clock: for each other stream, the
// number of the latest event that its work follows. An event keeps its stream's clock. A wait is
// left out if the clock says that it follows. A handle may name a new stream after the old one was
// destroyed; hence clocks use the numbers of streams, which never recur.
// Limits. The clocks do not see waits that the program itself makes.
//
// Thread-safe, if the device is: planned memory waits for the device without its lock.
class KnownWaits final : public ForwardingMemory {
  public:
    explicit KnownWaits(DeviceMemory& memory) : ForwardingMemory(memory) {}

    // Events are numbered in the order in which they were recorded.
    Event record_event(Stream stream) override;
    bool is_done(Event event) override { return ForwardingMemory::is_done(recorded(event)); }
    void await(Event event) override { ForwardingMemory::await(recorded(event)); }
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;

  private:
    // More streams than PyTorch has. A guess.
    static constexpr std::size_t kMostStreams = 256;

    // Numbers of streams, each with an event.
    using Clock = std::vector<std::pair<std::uint64_t, Event>>;
    struct Recorded {
        Event event;
        std::uint64_t stream;
        Clock clock;
    };

    Event recorded(Event event) const;
    static void raise(Clock& clock, std::uint64_t stream, Event event);
    bool follows(std::uint64_t stream, std::uint64_t other, Event event) const;

    mutable std::mutex mutex_;
    Event recorded_ = 0;                               // number of events so far
    std::unordered_map<std::uint64_t, Clock> clocks_;  // by the number of a stream
    std::unordered_map<Event, Recorded> events_;
};

}  // namespace gapless::runtime
