// An adaptor that maps the streams of a recorded run to real streams.
#pragma once

#include <unordered_map>

#include "device/forwarding_memory.h"
#include "device/stream_progress.h"

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
    void finish(Stream recorded) { progress_.finish(recorded); }
    // Marks work of the recorded stream as done if all work that it waits for is done.
    void advance(Stream recorded) { progress_.advance(recorded); }

    bool is_captured(Stream recorded) override {
        return ForwardingMemory::is_captured(handle_of(recorded));
    }
    std::uint64_t number_of(Stream recorded) override { return recorded; }
    Event record_event(Stream recorded) override {
        const Event event = ForwardingMemory::record_event(handle_of(recorded));
        events_[event] = progress_.record(recorded);
        return event;
    }
    bool is_done(Event event) override {
        const bool is_done = ForwardingMemory::is_done(event);
        if (!progress_.is_done(events_.at(event))) return false;
        if (!is_done) ForwardingMemory::await(event);
        return true;
    }
    void await(Event event) override {
        ForwardingMemory::await(event);
        progress_.await(events_.at(event));
    }
    void make_wait(Stream recorded, Event event) override {
        ForwardingMemory::make_wait(handle_of(recorded), event);
        progress_.make_wait(recorded, events_.at(event));
    }
    void destroy_event(Event event) override {
        events_.erase(event);
        ForwardingMemory::destroy_event(event);
    }
    void synchronize() override {
        ForwardingMemory::synchronize();
        progress_.finish_all();
    }

  private:
    Stream handle_of(Stream recorded) const {
        const auto found = handles_.find(recorded);
        return found == handles_.end() ? other_ : found->second;
    }

    const Stream other_;
    std::unordered_map<Stream, Stream> handles_;
    StreamProgress progress_;
    std::unordered_map<Event, StreamProgress::Mark> events_;
};

}  // namespace gapless::runtime
