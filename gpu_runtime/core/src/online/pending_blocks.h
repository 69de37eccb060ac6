// Freed blocks that other streams may be at work in.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// A block comes back when all streams that used it have done what they were given before it was
// freed. A stream that is captured is marked when it is not any more, which is later and hence
// safe; where there is no event, because the stream is gone or the device refused, the device is
// waited for. `Block` counts in `std::size_t pending` what it waits for.
template <class Block>
class PendingBlocks {
  public:
    explicit PendingBlocks(DeviceMemory& memory) : memory_(memory) {}

    // The block waits for the streams, at least one.
    void add(Block& block, const std::vector<Stream>& streams) {
        for (const Stream stream : streams) {
            ++block.pending;
            ++uses_;
            mark(block, stream);
        }
    }

    // Calls come_back(block) for those that are seen to wait for nothing. Throws DeviceCallError.
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

    // Waits, and does the same for all but those of captured streams. Throws DeviceCallError; then
    // some stay.
    template <class ComeBack>
    void await_all(ComeBack come_back) {
        mark_captured();
        if (!unmarked_.empty()) memory_.synchronize();
        // Streams of another device have to be waited for by themselves.
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

    bool empty() const { return uses_ == 0; }

  private:
    struct Use {
        Event event;
        Block* block;
    };
    struct Queue {
        Stream stream;
        std::deque<Use> uses;  // in the order of their ends
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
            // An event is lost; nothing depends on it any more.
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
