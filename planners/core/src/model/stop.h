// How a long loop is told to stop: by the time limit, or by a signal that Python received.
#pragma once

#include <functional>
#include <stdexcept>
#include <utility>

namespace gapless {

// Thrown where the time limit passes before there is anything to return.
class TimeLimitReached : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Polled once per step of a loop; asks the caller only every so often, and the caller throws.
class Stop {
  public:
    // Never stops.
    Stop() = default;
    explicit Stop(std::function<void()> check) : check_(std::move(check)) {}

    void poll() {
        if ((++polls_ & kEvery) == 0) check();
    }

    // Asks at once; for loops that count their own work.
    void check() {
        if (check_) check_();
    }

  private:
    static constexpr unsigned kEvery = 63;
    std::function<void()> check_;
    unsigned polls_ = 0;
};

}  // namespace gapless
