#include "device/known_waits.h"

#include <algorithm>

namespace gapless::runtime {

Event KnownWaits::record_event(Stream stream) {
    const std::uint64_t number = number_of(stream);
    const Event event = ForwardingMemory::record_event(stream);
    const std::lock_guard lock(mutex_);
    Clock clock = clocks_[number];
    raise(clock, number, ++recorded_);
    events_[recorded_] = {event, number, std::move(clock)};
    return recorded_;
}

void KnownWaits::make_wait(Stream stream, Event event) {
    const std::uint64_t number = number_of(stream);
    const std::lock_guard lock(mutex_);
    const Recorded& awaited = events_.at(event);
    if (number == awaited.stream || follows(number, awaited.stream, event)) return;
    ForwardingMemory::make_wait(stream, awaited.event);
    // A stream whose clock is forgotten only makes a wait that it could have left out.
    if (clocks_.size() > kMostStreams) clocks_.clear();
    Clock& clock = clocks_[number];
    for (const auto& [other, latest] : awaited.clock) raise(clock, other, latest);
}

void KnownWaits::destroy_event(Event event) {
    ForwardingMemory::destroy_event(recorded(event));
    const std::lock_guard lock(mutex_);
    events_.erase(event);
}

Event KnownWaits::recorded(Event event) const {
    const std::lock_guard lock(mutex_);
    return events_.at(event).event;
}

void KnownWaits::raise(Clock& clock, std::uint64_t stream, Event event) {
    const auto entry =
        std::ranges::find_if(clock, [&](const auto& each) { return each.first == stream; });
    if (entry == clock.end()) {
        clock.emplace_back(stream, event);
    } else {
        entry->second = std::max(entry->second, event);
    }
}

// Returns true if the work of a stream follows an event of another one.
bool KnownWaits::follows(std::uint64_t stream, std::uint64_t other, Event event) const {
    const auto clock = clocks_.find(stream);
    return clock != clocks_.end() && std::ranges::any_of(clock->second, [&](const auto& entry) {
               return entry.first == other && entry.second >= event;
           });
}

}  // namespace gapless::runtime
