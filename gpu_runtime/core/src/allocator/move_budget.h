// How much time planned memory may spend on keeping reserved bytes below PyTorch's.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace gapless::runtime {

// Note [Moves on a budget]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. Below the shadow, a byte less costs device calls: frames that move, and pages that go
// back to the device. What a byte is worth is the user's to say.
// Approach. The user allows a share of the program's time. The time that such calls took, host work
// included, is a running sum. It includes pages that are made again after they went back. While it
// is below the allowed share of the time since the beginning, the heap moves frames rather than
// grow; otherwise it grows up to the shadow. The time begins with the first step: what a program
// does not spend while it is set up is not spent in its steps.
//
// Limits. A device that is busy with other processes may make calls slower after they were allowed.
class MoveBudget {
  public:
    static constexpr double kUnlimited = std::numeric_limits<double>::infinity();

    // `share` is of the time since the beginning: 0 allows none, kUnlimited all.
    explicit MoveBudget(double share) : share_(share) {}

    // The beginning is now, and nothing is spent.
    void begin_again() {
        begin_ = Clock::now();
        spent_ = {};
    }

    bool is_unlimited() const { return share_ == kUnlimited; }
    bool is_left() const {
        if (share_ == 0 || share_ == kUnlimited) return share_ > 0;
        return left_seconds() >= 0;
    }
    // The time that may be spent now; negative if too much was spent.
    double left_seconds() const {
        if (is_unlimited()) return kUnlimited;
        return share_ * to_seconds(Clock::now() - begin_) - spent_seconds();
    }
    double spent_seconds() const { return to_seconds(spent_); }

    // Takes back a part of the time that was spent.
    void refund(double seconds) {
        spent_ -=
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }

    // Adds the time of its life to the time that is spent.
    class Charge {
      public:
        explicit Charge(MoveBudget& budget) : budget_(budget) {}
        Charge(const Charge&) = delete;
        Charge& operator=(const Charge&) = delete;
        ~Charge() { budget_.spent_ += Clock::now() - begin_; }

      private:
        MoveBudget& budget_;
        const std::chrono::steady_clock::time_point begin_ = Clock::now();
    };

  private:
    using Clock = std::chrono::steady_clock;

    static double to_seconds(Clock::duration duration) {
        return std::chrono::duration<double>(duration).count();
    }

    const double share_;
    Clock::time_point begin_ = Clock::now();
    Clock::duration spent_{};
};

}  // namespace gapless::runtime
