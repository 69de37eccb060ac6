// A stop request for long loops, caused by the time limit or by a signal that Python received.
#pragma once

#include <functional>
#include <stdexcept>
#include <utility>

namespace gapless {

// Thrown if the time limit passes before the call has anything to return.
class TimeLimitReached : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A loop calls poll() once per iteration. Every 64th call asks the caller, who may throw to stop.
class Stop {
  public:
    // A stop that never happens.
    Stop() = default;
    explicit Stop(std::function<void()> check) : check_(std::move(check)) {}

    void poll() {
        if ((++polls_ & kEvery) == 0) check();
    }

    // Asks the caller at once; for loops that count their own work.
    void check() {
        if (check_) check_();
    }

  private:
    // A mask: the caller is asked at every 64th poll. A guess.
    static constexpr unsigned kEvery = 63;
    std::function<void()> check_;
    unsigned polls_ = 0;
};

}  // namespace gapless
