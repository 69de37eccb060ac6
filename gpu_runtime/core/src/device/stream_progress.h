// How far streams without a clock have come: which of their events are done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

class StreamProgress {
  public:
    // An event: the number-th one of a stream.
    struct Mark {
        std::size_t stream;  // index in states_
        std::uint64_t number;
    };

    Mark record(Stream stream) {
        const std::size_t index = index_of(stream);
        return {index, ++states_[index].recorded};
    }
    bool is_done(const Mark& mark) const { return mark.number <= states_[mark.stream].done; }
    // Marks an event, and the earlier ones of its stream, as done.
    void await(const Mark& mark) {
        State& state = states_[mark.stream];
        state.done = std::max(state.done, mark.number);
    }
    // Lets the later events of a stream wait for an event.
    void make_wait(Stream stream, const Mark& mark) {
        State& state = states_[index_of(stream)];
        if (!is_done(mark)) state.waits.push_back({state.recorded, mark});
    }
    // Marks all events of a stream as done.
    void finish(Stream stream) { finish(states_[index_of(stream)]); }
    // Marks those events of a stream as done that wait for nothing unfinished.
    void advance(Stream stream) {
        State& state = states_[index_of(stream)];
        while (!state.waits.empty() && is_done(state.waits.front().awaited)) {
            state.waits.pop_front();
        }
        state.done =
            std::max(state.done, state.waits.empty() ? state.recorded : state.waits.front().behind);
    }
    void finish_all() {
        for (State& state : states_) finish(state);
    }

  private:
    struct Wait {
        std::uint64_t behind;  // number of events recorded before the wait
        Mark awaited;
    };
    struct State {
        std::uint64_t recorded = 0;
        std::uint64_t done = 0;
        std::deque<Wait> waits;
    };

    std::size_t index_of(Stream stream) {
        const auto [entry, is_new] = index_.try_emplace(stream, states_.size());
        if (is_new) states_.emplace_back();
        return entry->second;
    }
    static void finish(State& state) {
        state.done = state.recorded;
        state.waits.clear();
    }

    std::unordered_map<Stream, std::size_t> index_;
    std::vector<State> states_;
};

}  // namespace gapless::runtime
