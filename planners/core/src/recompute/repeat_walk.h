// Local search over units to repeat and tensors to send away: fewest seconds within a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/random.h"
#include "model/stop.h"
#include "recompute/step.h"

namespace gapless {

// Note [The walk]
// ~~~~~~~~~~~~~~~
// Rationale. What a unit saves depends on the others: a repeated unit keeps its inputs alive, or
// needs them repeated as well. So a decision is judged as a whole, by its sequence.
//
// Approach. Simulated annealing over flags, one for each unit that may run again and each tensor
// that may be sent away. A move changes one flag, a run of neighbouring flags, or exchanges two. A
// state costs its seconds and a price for each byte above the limit and place of the sequence. The
// price is not given: it rises while the walk is above the limit and falls while it is not, so that
// the walk keeps crossing the limit. The best state at most at the limit is kept.
//
// Limits. No bound and no proof.
class RepeatWalk {
  public:
    // Throws like Step::require_choice.
    RepeatWalk(std::shared_ptr<const Step> step, Choice start, std::int64_t limit,
               std::uint64_t seed);

    // Tries moves while the temperature falls from `warmth` of its first value to `coolness` of it.
    void run(std::int64_t moves, double warmth, double coolness, Stop& stop);

    std::int64_t tried() const { return tried_; }
    // True if some state was at most at the limit; `best` is the fastest of these.
    bool has_best() const { return has_best_; }
    const Choice& best() const { return best_; }
    double best_seconds() const { return best_seconds_; }
    // The state with the lowest peak of all.
    const Choice& lowest() const { return lowest_; }

  private:
    std::uint8_t& flag(Choice& choice, std::uint64_t index) const;
    void change();

    std::shared_ptr<const Step> step_;
    Random random_;
    std::int64_t limit_;
    // Units that may run again, and tensors that may be sent away, in their order.
    std::vector<std::int32_t> units_, tensors_;
    Choice state_, next_, best_, lowest_;
    SequenceCost cost_;
    bool has_best_ = false;
    double price_ = 0, first_temperature_ = 0, best_seconds_ = 0;
    std::int64_t lowest_peak_ = 0, tried_ = 0;
};

}  // namespace gapless
