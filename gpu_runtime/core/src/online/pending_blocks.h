// Freed blocks that other streams may still use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Another stream than the block's own uses a block until its free.
inline void use_until_free(std::vector<Stream>& used_on, Stream own, Stream stream) {
    const bool is_known = stream == own || std::ranges::find(used_on, stream) != used_on.end();
    if (!is_known) used_on.push_back(stream);
}

// A freed block comes back when the streams that used it have finished the work that was submitted
// before the free. An event on each stream tells when. On a captured stream the event is recorded
// after the capture, which is later and hence safe. If there is no event, because the stream is
// gone or the device refused, await_all() waits for the whole device. `Block` needs a field
// `std::size_t pending`, the number of streams that it waits for.
template <class Block>
class PendingBlocks {
  public:
    explicit PendingBlocks(DeviceMemory& memory) : memory_(memory) {}

    // Adds a freed block, which waits for one or more streams.
    void add(Block& block, const std::vector<Stream>& streams) {
        for (const Stream stream : streams) {
            ++block.pending;
            ++uses_;
            mark(block, stream);
        }
    }

    // Calls come_back(block) for each block whose streams are done, without waiting. Throws
    // DeviceCallError.
    template <class ComeBack>
    void collect(ComeBack come_back) {
        if (uses_ == 0) return;
        mark_captured();
        for (Queue& queue : queues_) {
            while (!queue.uses.empty() && memory_.is_done(queue.uses.front().event)) {
                take_first(queue, come_back);
            }
        }
    }

    // Waits for all streams that are not captured, and calls come_back(block) for each block that
    // waits for no other. Throws DeviceCallError; then some blocks stay.
    template <class ComeBack>
    void await_all(ComeBack come_back) {
        mark_captured();
        if (!unmarked_.empty()) memory_.synchronize();
        // synchronize() waits for one device only; events of other devices need a wait of their
        // own.
        for (Queue& queue : queues_) {
            while (!queue.uses.empty()) {
                memory_.await(queue.uses.front().event);
                take_first(queue, come_back);
            }
        }
        while (!unmarked_.empty()) {
            Block* const block = unmarked_.back();
            unmarked_.pop_back();
            release(*block, come_back);
        }
    }

  private:
    struct Use {
        Event event;
        Block* block;
    };
    struct Queue {
        Stream stream;
        std::deque<Use> uses;  // in the order in which their events were recorded
    };

    void mark(Block& block, Stream stream) {
        try {
            if (memory_.is_captured(stream)) {
                captured_.emplace_back(&block, stream);
            } else {
                queue_of(stream).push_back({memory_.record_event(stream), &block});
            }
        } catch (const DeviceCallError&) {
            unmarked_.push_back(&block);
        }
    }

    void mark_captured() {
        for (const auto& [block, stream] : std::exchange(captured_, {})) mark(*block, stream);
    }

    std::deque<Use>& queue_of(Stream stream) {
        for (Queue& queue : queues_) {
            if (queue.stream == stream) return queue.uses;
        }
        queues_.push_back({stream, {}});
        return queues_.back().uses;
    }

    template <class ComeBack>
    void take_first(Queue& queue, ComeBack& come_back) {
        const Use use = queue.uses.front();
        queue.uses.pop_front();
        try {
            memory_.destroy_event(use.event);
        } catch (const DeviceCallError&) {
            // The event leaks, which is harmless: no code reads it again.
        }
        release(*use.block, come_back);
    }

    template <class ComeBack>
    void release(Block& block, ComeBack& come_back) {
        --uses_;
        if (--block.pending == 0) come_back(block);
    }

    DeviceMemory& memory_;
    std::vector<Queue> queues_;
    std::vector<std::pair<Block*, Stream>> captured_;
    std::vector<Block*> unmarked_;
    std::size_t uses_ = 0;
};

}  // namespace gapless::runtime
