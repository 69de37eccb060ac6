// Refuses a second call of a search that keeps state.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

namespace gapless::bindings {

// Note [One question at a time]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. A search may keep the state of its question between nodes. Two concurrent questions
// would corrupt each other.
// Approach. A second question is refused at once. Waiting for the first would not help: the wait
// may last the first one's time limit, the answer would come no faster than from a second search
// object, and a signal handler that asks the search that it interrupted would wait for itself.
class OneAtATime {
  public:
    OneAtATime(std::atomic_flag& busy, const char* call) : busy_(busy) {
        if (busy_.test_and_set()) {
            throw std::runtime_error(std::string(call) +
                                     ": one question at a time, found it in use by another call; "
                                     "make a search for each thread");
        }
    }
    ~OneAtATime() { busy_.clear(); }
    OneAtATime(const OneAtATime&) = delete;
    OneAtATime& operator=(const OneAtATime&) = delete;

  private:
    std::atomic_flag& busy_;
};

}  // namespace gapless::bindings
