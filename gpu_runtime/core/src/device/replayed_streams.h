// A device on which the streams of a recorded run stand for some that there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// Note [Replayed streams]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A recording has the handles of streams of another process, and in a replay no kernels
// run: a stream of the device would be done with everything at once, so that no block would ever
// wait for one, and nothing would cost what waiting costs.
// Approach. A recorded stream stands for one of the device, on which events are really recorded,
// waited for and destroyed. Whether such an event is done is what finish() says, or who waited;
// the device is asked too, and where it lags a moment behind it is waited for. So an allocator
// takes the way it takes over a ledger of LedgerStreams::when_told. Limits. Waiting is as short as
// on an idle device.
class ReplayedStreams final : public ForwardingMemory {
  public:
    // Every stream that stand_for() does not name is `other`.
    ReplayedStreams(DeviceMemory& memory, Stream other) : ForwardingMemory(memory), other_(other) {}

    void stand_for(Stream recorded, Stream handle) { handles_[recorded] = handle; }
    // The recorded stream is done with all that it was given so far.
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
        std::uint64_t recorded = 0;  // events so far
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
