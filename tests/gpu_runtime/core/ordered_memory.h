// A simulated device that knows what is ordered before what.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "device/forwarding_memory.h"
#include "device/simulated_memory.h"

namespace gapless::tests {

using namespace gapless::runtime;

constexpr std::size_t kStreams = 4;   // at a time
constexpr std::size_t kHandles = 12;  // of streams, ever

// Of each stream, how much of its work is known to be done, or done before what comes.
using Clock = std::array<std::uint64_t, kHandles>;

inline void advance(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < kHandles; ++i) clock[i] = std::max(clock[i], other[i]);
}

// Streams are numbers below kHandles.
class OrderedMemory final : public ForwardingMemory {
  public:
    explicit OrderedMemory(SimulatedMemory& memory) : ForwardingMemory(memory), memory_(memory) {}

    // Returns the position of the work.
    std::uint64_t submit(Stream stream, Address address, std::size_t bytes) {
        memory_.submit(stream, address, bytes);
        return ++clocks_[stream][stream];
    }
    void finish(Stream stream) {
        memory_.finish(stream);
        advance(done_, clocks_[stream]);
    }
    // Whether work of another stream is over when a stream does what it is given next.
    bool is_ordered(Stream stream, Stream other, std::uint64_t position) const {
        return position <= std::max(clocks_[stream][other], done_[other]);
    }
    // Events that the device did not take back, and nobody tried again.
    std::size_t lost_events() const { return refused_.size(); }

    void synchronize() override {
        memory_.synchronize();
        for (const Clock& clock : clocks_) advance(done_, clock);
    }
    Event record_event(Stream stream) override {
        const Event event = memory_.record_event(stream);
        events_[event] = clocks_[stream];
        return event;
    }
    bool is_done(Event event) override {
        if (!memory_.is_done(event)) return false;
        advance(done_, events_.at(event));
        return true;
    }
    void await(Event event) override {
        memory_.await(event);
        advance(done_, events_.at(event));
    }
    void make_wait(Stream stream, Event event) override {
        memory_.make_wait(stream, event);
        advance(clocks_[stream], events_.at(event));
    }
    void destroy_event(Event event) override {
        refused_.insert(event);
        memory_.destroy_event(event);
        refused_.erase(event);
        events_.erase(event);
    }

  private:
    SimulatedMemory& memory_;
    std::array<Clock, kHandles> clocks_{};
    Clock done_{};
    std::map<Event, Clock> events_;
    std::set<Event> refused_;
};

}  // namespace gapless::tests
