// Local search over the units that run again: fewest seconds with live bytes at most a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "budget/step.h"
#include "model/random.h"
#include "model/stop.h"

namespace gapless {

// Note [The walk]
// ~~~~~~~~~~~~~~~
// Rationale. What a unit saves depends on the others: a repeated unit keeps its inputs alive, or
// needs them repeated as well. So a decision is judged as a whole, by its sequence.
//
// Approach. Simulated annealing. A move changes one unit, a run of neighbouring units, or exchanges
// two. A state costs its seconds and a price for each byte above the limit and place of the
// sequence. The price is not given: it rises while the walk is above the limit and falls while it
// is not, so that the walk keeps crossing the limit. The best state at most at the limit is kept.
//
// Limits. No bound and no proof.
class RepeatWalk {
  public:
    // Throws like Step::require_flags.
    RepeatWalk(std::shared_ptr<const Step> step, std::vector<std::uint8_t> repeated,
               std::int64_t limit, std::uint64_t seed);

    // Tries moves while the temperature falls from `warmth` of its first value to `coolness` of it.
    void run(std::int64_t moves, double warmth, double coolness, Stop& stop);

    std::int64_t tried() const { return tried_; }
    // Empty if no state was at most at the limit.
    const std::vector<std::uint8_t>& best() const { return best_; }
    double best_seconds() const { return best_seconds_; }
    // The state with the lowest peak of all.
    const std::vector<std::uint8_t>& lowest() const { return lowest_; }
    std::int64_t lowest_peak() const { return lowest_peak_; }

  private:
    struct Cost {
        double seconds = 0;
        SequenceMemory memory;
    };
    Cost judge(const std::vector<std::uint8_t>& repeated);
    void change();

    std::shared_ptr<const Step> step_;
    Random random_;
    std::int64_t limit_;
    // Units that may run again, in the order of their first nodes.
    std::vector<std::int32_t> units_;
    std::vector<std::uint8_t> state_, next_, best_, lowest_;
    Cost cost_;
    double price_ = 0, first_temperature_ = 0, best_seconds_ = 0;
    std::int64_t lowest_peak_ = 0, tried_ = 0;
};

}  // namespace gapless
