// An event that is destroyed with its owner.
#pragma once

#include "device/device_memory.h"

namespace gapless::runtime {

// Marks the work that a stream had when this object was made.
class StreamMark {
  public:
    // Throws StreamIsCaptured, DeviceCallError.
    StreamMark(DeviceMemory& memory, Stream stream)
        : memory_(memory), stream_(stream), event_(record(memory, stream)) {}
    ~StreamMark() {
        try {
            memory_.destroy_event(event_);
        } catch (...) {
            // The event leaks; no code depends on it any more.
        }
    }
    StreamMark(const StreamMark&) = delete;
    StreamMark& operator=(const StreamMark&) = delete;

    Stream stream() const { return stream_; }
    Event event() const { return event_; }

  private:
    static Event record(DeviceMemory& memory, Stream stream) {
        if (memory.is_captured(stream)) throw StreamIsCaptured();
        return memory.record_event(stream);
    }

    DeviceMemory& memory_;
    Stream stream_;
    Event event_;
};

}  // namespace gapless::runtime
