// Dropped ranges of addresses that a stream may still use.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "device/device_memory.h"
#include "device/page_mapper.h"

namespace gapless::runtime {

// A range is released when its stream is done, which an event tells. A range without an event,
// because its stream is captured or gone or the device refused one, waits for release_all().
class RetiredRanges {
  public:
    RetiredRanges(DeviceMemory& memory, PageMapper& mapper) : memory_(memory), mapper_(mapper) {}

    // Adds a range that is mapped as a whole and served work of one stream.
    void add(Address address, std::size_t bytes, Stream stream) {
        new_.push_back({address, bytes, stream, true});
    }
    // Adds a range without mappings, except those that the mapper has yet to undo.
    void add_empty(Address address, std::size_t bytes) {
        unmarked_.push_back({address, bytes, 0, false});
    }

    // Releases ranges whose streams are done, without waiting. Throws no error of the device.
    void collect() {
        for (const Range& range : std::exchange(new_, {})) mark(range);
        try {
            while (!marked_.empty() && memory_.is_done(marked_.front().event)) {
                const Marked first = marked_.front();
                marked_.pop_front();
                unmarked_.push_back(first.range);
                destroy(first.event);
                release(unmarked_.size() - 1);
            }
        } catch (const DeviceCallError&) {
            // The range stays.
        }
    }

    // Releases all ranges except those of captured streams; all streams must be done. Throws
    // DeviceCallError; then some ranges stay.
    void release_all() {
        for (const Range& range : std::exchange(new_, {})) unmarked_.push_back(range);
        for (const Marked& marked : std::exchange(marked_, {})) {
            unmarked_.push_back(marked.range);
            destroy(marked.event);
        }
        for (std::size_t i = unmarked_.size(); i > 0; --i) {
            const Range& range = unmarked_[i - 1];
            if (!range.is_mapped || !memory_.is_captured(range.stream)) release(i - 1);
        }
    }

    bool empty() const { return new_.empty() && marked_.empty() && unmarked_.empty(); }

  private:
    struct Range {
        Address address;
        std::size_t bytes;
        Stream stream;
        bool is_mapped;
    };
    struct Marked {
        Range range;
        Event event;
    };

    void mark(const Range& range) {
        try {
            if (!memory_.is_captured(range.stream)) {
                marked_.push_back({range, memory_.record_event(range.stream)});
                return;
            }
        } catch (const DeviceCallError&) {
            // The range has no event.
        }
        unmarked_.push_back(range);
    }

    void destroy(Event event) {
        try {
            memory_.destroy_event(event);
        } catch (const DeviceCallError&) {
            // The event leaks, which is harmless: no code reads it again.
        }
    }

    // Releases a range; the last range moves to its index.
    void release(std::size_t index) {
        Range& range = unmarked_[index];
        mapper_.settle();
        if (range.is_mapped) memory_.unmap(range.address, range.bytes);
        range.is_mapped = false;
        memory_.release_range(range.address, range.bytes);
        range = unmarked_.back();
        unmarked_.pop_back();
    }

    DeviceMemory& memory_;
    PageMapper& mapper_;
    std::vector<Range> new_;
    std::deque<Marked> marked_;  // in the order of their events
    std::vector<Range> unmarked_;
};

}  // namespace gapless::runtime
