// An adaptor that maps the streams of a recorded run to real streams.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// Note [Replayed streams]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A recording has stream handles of another process, and a replay runs no kernels. So a
// real stream would be done at once: no block would ever wait for a stream, and waiting would cost
// nothing.
// Approach. Each recorded stream stands for a real one, on which events are really recorded, waited
// for and destroyed. Whether an event is done is decided by finish() and by waits. The real event
// is queried too, and waited for if it is not done yet. So an online allocator behaves as over a
// ledger with LedgerStreams::when_told.
// Limits. Waits are as short as on an idle device.
class ReplayedStreams final : public ForwardingMemory {
  public:
    // Recorded streams that stand_for() does not name stand for `other`.
    ReplayedStreams(DeviceMemory& memory, Stream other) : ForwardingMemory(memory), other_(other) {}

    void stand_for(Stream recorded, Stream handle) { handles_[recorded] = handle; }
    // Marks all work of the recorded stream as done.
    void finish(Stream recorded) {
        State& state = states_[recorded];
        state.done = state.recorded;
    }

    bool is_captured(Stream recorded) override {
        return ForwardingMemory::is_captured(handle_of(recorded));
    }
    Event record_event(Stream recorded) override {
        const Event event = ForwardingMemory::record_event(handle_of(recorded));
        events_[event] = {recorded, ++states_[recorded].recorded};
        return event;
    }
    bool is_done(Event event) override {
        const Mark& mark = events_.at(event);
        const bool is_done = ForwardingMemory::is_done(event);
        if (mark.number > states_[mark.recorded].done) return false;
        if (!is_done) ForwardingMemory::await(event);
        return true;
    }
    void await(Event event) override {
        ForwardingMemory::await(event);
        const Mark& mark = events_.at(event);
        std::uint64_t& done = states_[mark.recorded].done;
        done = std::max(done, mark.number);
    }
    void make_wait(Stream recorded, Event event) override {
        ForwardingMemory::make_wait(handle_of(recorded), event);
    }
    void destroy_event(Event event) override {
        events_.erase(event);
        ForwardingMemory::destroy_event(event);
    }
    void synchronize() override {
        ForwardingMemory::synchronize();
        for (auto& [recorded, state] : states_) state.done = state.recorded;
    }

  private:
    struct State {
        std::uint64_t recorded = 0;  // events recorded so far
        std::uint64_t done = 0;
    };
    struct Mark {
        Stream recorded;
        std::uint64_t number;
    };
    Stream handle_of(Stream recorded) const {
        const auto found = handles_.find(recorded);
        return found == handles_.end() ? other_ : found->second;
    }

    const Stream other_;
    std::unordered_map<Stream, Stream> handles_;
    std::unordered_map<Stream, State> states_;
    std::unordered_map<Event, Mark> events_;
};

}  // namespace gapless::runtime
