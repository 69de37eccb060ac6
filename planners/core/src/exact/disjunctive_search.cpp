#include "exact/disjunctive_search.h"

#include <algorithm>
#include <limits>

namespace gapless {

// Note [Disjunctive search]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A chain may lie below one tensor with one member and above it with another, and two chains may
// interlock, so no order of the blocks builds all plans from below. What decides a plan are the
// differences of offsets: two blocks with unsafe members must not have certain differences, which
// form open intervals, and every plan has each difference at or beyond one end of each interval. A
// node is a set of such decisions, "offset of b at least offset of a plus d". Offsets that satisfy
// them, the alignments and the pins are closed under taking the smaller one block by block, so a
// node has a least solution, found by raising offsets until nothing is broken. No plan of the node
// lies below it anywhere. If it has no overlap it is a plan, and no other of the node has a lower
// peak. Else some two blocks have a forbidden difference: one branch asks for the upper end of its
// interval, the other for the lower. Both are exact, and together they lose no plan.
//
// In the same way a node has a greatest solution under the capacity. Where, between both, one of
// two unsafe members no longer fits below the other, it must lie above: both bounds move to say so.
// This needs no record, as bounds only close in, and it is looked at again whenever one of them
// moves.
//
// A node is refuted if the two solutions cross, or by the bytes in a section, as in Note [Canonical
// search]: one member is lowest there, all others lie above it; members that would then pass the
// capacity lie above the end of one that may be lowest.
//
// Offsets are integers, grow with every decision, and are bounded by the capacity; an interval once
// decided stays decided. So the search ends.
//
// Contradiction. Decisions may ask for more than a chain leaves between its members, and then two
// blocks raise each other, by as little as one unit a turn: the capacity would end that, after as
// many turns as it has units. Such a circle contains the newest decision, "b above a", as those
// before it had a solution. Let x be the offset of a, and P the largest modulus, which all others
// divide. What the decision raises follows from x alone. If there is a solution at all, then
// moving all of it down by P again and again keeps decisions and alignments, so there is one, below
// 0 perhaps, with a in [x, x + P), and what follows from x stays at or below it. So the node is
// refuted as soon as its newest decision raises a itself to x + P. Once decisions have a solution,
// what they lower ends as well.
//
// Pairs and sections may run in such a circle too. So closing in ends after a while: every move is
// sound by itself, and what is left is branched on.

namespace {

constexpr std::int64_t kWorkPerCheck = 1 << 14;
// Looks at the pairs of a block, on average, and at the sections, in one node.
constexpr int kRounds = 16;
// Decisions on top of each other: as far as a thread's stack reaches. What is below stays unknown.
constexpr int kDeepest = 10'000;

}  // namespace

class DisjunctiveSearch::Engine {
  public:
    Engine(const SearchProblem& problem, const Neighbours& neighbours, std::int64_t capacity,
           std::int64_t node_limit, Branching branching, DisjunctiveRules rules, Stop& stop)
        : problem_(problem),
          neighbours_(neighbours),
          capacity_(capacity),
          node_limit_(node_limit),
          branching_(branching),
          rules_(rules),
          stop_(stop),
          above_(problem.modulus.size()),
          below_(problem.modulus.size()),
          waiting_(problem.modulus.size(), 0),
          members_(problem.modulus.size()),
          alive_(static_cast<std::size_t>(problem.sections)),
          total_(alive_.size(), 0) {
        std::vector<std::int64_t> extent(problem.modulus.size(), 0);
        for (std::int32_t m = 0; m < problem.member_count(); ++m) {
            members_[problem.block[m]].push_back(m);
            std::int64_t& reach = extent[problem.block[m]];
            reach = std::max(reach, problem.before[m] + problem.size[m]);
            for (const SectionRange& range : problem.ranges_of(m)) {
                for (std::int32_t s = range.first; s < range.last; ++s) {
                    alive_[s].push_back(m);
                    total_[s] += problem.size[m];
                }
            }
        }
        for (std::int32_t b = 0; b < problem.block_count(); ++b) {
            period_ = std::max(period_, problem.modulus[b]);
            const std::int64_t pin = problem.pinned[b];
            offset_.push_back(pin >= 0 ? pin : problem.residue[b]);
            most_.push_back(pin >= 0 ? pin : capacity - extent[b]);
            if (pin >= 0 && pin + extent[b] > capacity) most_.back() = -1;
            most_.back() = align_down(b, most_.back());
        }
    }

    Decision decide() {
        bool possible = true;
        for (std::int32_t b = 0; b < problem_.block_count(); ++b) {
            possible &= offset_[b] <= most_[b];
            wait_for(b);
        }
        const Verdict verdict = possible ? explore() : Verdict::kRefuted;
        Decision decision{verdict, {}, counters_};
        if (verdict == Verdict::kFits) decision.offsets = offset_;
        return decision;
    }

  private:
    // A decision, kept with either block: the other one is at least `distance` above, or below.
    struct Arc {
        std::int32_t other;
        std::int64_t distance;
    };
    // The least offset of a block before it moved, or, as ~block, the greatest.
    struct Change {
        std::int32_t block;
        std::int64_t before;
    };
    // Two unsafe members that overlap in the least solution.
    struct Overlap {
        std::int32_t a = -1, b = -1;
    };

    std::int64_t bottom(std::int32_t member) const {
        return offset_[problem_.block[member]] + problem_.before[member];
    }
    std::int64_t top(std::int32_t member) const { return bottom(member) + problem_.size[member]; }

    std::int64_t greatest_bottom(std::int32_t member) const {
        return most_[problem_.block[member]] + problem_.before[member];
    }
    std::int64_t align_up(std::int32_t b, std::int64_t at) const {
        return at + ((problem_.residue[b] - at) & (problem_.modulus[b] - 1));
    }
    std::int64_t align_down(std::int32_t b, std::int64_t at) const {
        return at - ((at - problem_.residue[b]) & (problem_.modulus[b] - 1));
    }

    Verdict explore() {
        if (counters_.nodes >= node_limit_ || depth_ == kDeepest) return Verdict::kNodeLimit;
        ++counters_.nodes;
        ++depth_;
        const std::size_t changes = changes_.size();
        Verdict verdict = Verdict::kRefuted;
        if (close_in()) {
            const Overlap overlap = worst_overlap();
            verdict = overlap.a < 0 ? Verdict::kFits : branch(overlap);
        } else {
            ++counters_.by_section;
        }
        if (verdict != Verdict::kFits) undo_to(changes);
        --depth_;
        return verdict;
    }

    Verdict branch(Overlap overlap) {
        // First the way that raises less.
        if (top(overlap.a) - bottom(overlap.b) > top(overlap.b) - bottom(overlap.a)) {
            std::swap(overlap.a, overlap.b);
        }
        for (int way = 0; way < 2; ++way) {
            const std::size_t changes = changes_.size();
            const std::int32_t from = problem_.block[overlap.a], to = problem_.block[overlap.b];
            above_[from].push_back({to, end_in_block(overlap.a) - problem_.before[overlap.b]});
            below_[to].push_back({from, end_in_block(overlap.a) - problem_.before[overlap.b]});
            Verdict verdict = Verdict::kRefuted;
            if (put_below(overlap.a, overlap.b, from)) verdict = explore();
            if (verdict == Verdict::kFits) return verdict;
            undo_to(changes);
            above_[from].pop_back();
            below_[to].pop_back();
            if (verdict == Verdict::kNodeLimit) return verdict;
            std::swap(overlap.a, overlap.b);
        }
        return Verdict::kRefuted;
    }

    std::int64_t end_in_block(std::int32_t member) const {
        return problem_.before[member] + problem_.size[member];
    }

    // Moves the bounds of two members so that `lower` fits below `upper`.
    bool put_below(std::int32_t lower, std::int32_t upper, std::int32_t decided_below = -1) {
        return raise(problem_.block[upper], top(lower) - problem_.before[upper], decided_below) &&
               sink(problem_.block[lower], greatest_bottom(upper) - end_in_block(lower));
    }

    void undo_to(std::size_t changes) {
        while (changes_.size() > changes) {
            const Change change = changes_.back();
            changes_.pop_back();
            (change.block < 0 ? most_[~change.block] : offset_[change.block]) = change.before;
        }
        // What is undone needs no look: it was looked at before it moved.
        for (const std::int32_t b : queue_) waiting_[b] = 0;
        queue_.clear();
    }

    void wait_for(std::int32_t block) {
        if (waiting_[block]) return;
        waiting_[block] = 1;
        queue_.push_back(block);
    }

    // Raises the least offset of a block, and of all that decisions put above it; false where one
    // passes its limit, or where the newest decision, to put it above `below`, contradicts others.
    bool raise(std::int32_t block, std::int64_t to, std::int32_t below = -1) {
        const std::int64_t contradiction = below < 0 ? 0 : offset_[below] + period_;
        open_.assign(1, {block, to});
        while (!open_.empty()) {
            const auto [b, at] = open_.back();
            open_.pop_back();
            if (offset_[b] >= at) continue;
            const std::int64_t aligned = align_up(b, at);
            if (aligned > most_[b]) return false;
            if (b == below && aligned >= contradiction) return false;
            changes_.push_back({b, offset_[b]});
            offset_[b] = aligned;
            wait_for(b);
            look_at_the_clock(1 + static_cast<std::int64_t>(above_[b].size()));
            for (const Arc& arc : above_[b]) open_.push_back({arc.other, aligned + arc.distance});
        }
        return true;
    }

    // Lowers the greatest offset of a block, and of all that decisions put below it.
    bool sink(std::int32_t block, std::int64_t to) {
        open_.assign(1, {block, to});
        while (!open_.empty()) {
            const auto [b, at] = open_.back();
            open_.pop_back();
            if (most_[b] <= at) continue;
            const std::int64_t aligned = align_down(b, at);
            if (aligned < offset_[b]) return false;
            changes_.push_back({~b, most_[b]});
            most_[b] = aligned;
            wait_for(b);
            look_at_the_clock(1 + static_cast<std::int64_t>(below_[b].size()));
            for (const Arc& arc : below_[b]) open_.push_back({arc.other, aligned - arc.distance});
        }
        return true;
    }

    // Closes in on pairs and sections until nothing moves, or for long enough; false where the node
    // is refuted.
    bool close_in() {
        std::int64_t looks = kRounds * static_cast<std::int64_t>(offset_.size());
        for (int round = 0; round < kRounds; ++round) {
            while (!queue_.empty()) {
                const std::int32_t block = queue_.back();
                queue_.pop_back();
                waiting_[block] = 0;
                if (rules_.forced && --looks >= 0 && !force_pairs_of(block)) return false;
            }
            if (!raise_in_sections()) return false;
            if (queue_.empty()) break;
        }
        return true;
    }

    bool force_pairs_of(std::int32_t block) {
        for (const std::int32_t m : members_[block]) {
            const auto others = neighbours_.of(m);
            look_at_the_clock(static_cast<std::int64_t>(others.size()));
            for (const std::int32_t other : others) {
                if (problem_.block[other] == block) continue;
                const bool below = top(m) <= greatest_bottom(other);
                const bool above = top(other) <= greatest_bottom(m);
                if (below && above) continue;
                if (!below && !above) return false;
                if (!(below ? put_below(m, other) : put_below(other, m))) return false;
            }
        }
        return true;
    }

    bool raise_in_sections() {
        for (std::size_t s = 0; s < alive_.size(); ++s) {
            if (alive_[s].empty()) continue;
            look_at_the_clock(static_cast<std::int64_t>(alive_[s].size()));
            constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
            std::int64_t least_end = kNone;
            const std::int64_t room = capacity_ - total_[s];
            for (const std::int32_t m : alive_[s]) {
                if (bottom(m) <= room) least_end = std::min(least_end, top(m));
            }
            if (least_end == kNone) return false;
            if (!rules_.lowest) continue;
            for (const std::int32_t m : alive_[s]) {
                if (bottom(m) <= room || bottom(m) >= least_end) continue;
                if (!raise(problem_.block[m], least_end - problem_.before[m])) return false;
                ++counters_.raised;
            }
        }
        return true;
    }

    // The two overlapping members that matter most; the earliest of equals.
    Overlap worst_overlap() {
        Overlap worst;
        std::int64_t most = std::numeric_limits<std::int64_t>::min();
        for (std::int32_t a = 0; a < problem_.member_count(); ++a) {
            const auto others = neighbours_.of(a);
            look_at_the_clock(static_cast<std::int64_t>(others.size()));
            for (const std::int32_t b : others) {
                if (b < a || bottom(a) >= top(b) || bottom(b) >= top(a)) continue;
                const std::int64_t weight = overlap_weight(a, b);
                if (weight <= most) continue;
                most = weight;
                worst = {a, b};
            }
        }
        return worst;
    }

    std::int64_t overlap_weight(std::int32_t a, std::int32_t b) const {
        if (branching_ == Branching::kLargest) return std::min(problem_.size[a], problem_.size[b]);
        return -std::max(greatest_bottom(b) - top(a), greatest_bottom(a) - top(b));
    }

    void look_at_the_clock(std::int64_t work) {
        work_ += work;
        if (work_ < kWorkPerCheck) return;
        work_ = 0;
        stop_.check();
    }

    const SearchProblem& problem_;
    const Neighbours& neighbours_;
    const std::int64_t capacity_, node_limit_;
    const Branching branching_;
    const DisjunctiveRules rules_;
    Stop& stop_;
    std::int64_t work_ = 0;
    int depth_ = 0;
    // The largest modulus.
    std::int64_t period_ = 1;
    SearchCounters counters_;
    // Least and largest offset of each block.
    std::vector<std::int64_t> offset_, most_;
    std::vector<std::vector<Arc>> above_, below_;
    // Blocks that moved, and whose pairs want a look.
    std::vector<std::int32_t> queue_;
    std::vector<char> waiting_;
    std::vector<std::vector<std::int32_t>> members_;
    std::vector<Change> changes_;
    std::vector<std::pair<std::int32_t, std::int64_t>> open_;
    // Members and bytes of each section.
    std::vector<std::vector<std::int32_t>> alive_;
    std::vector<std::int64_t> total_;
};

DisjunctiveSearch::DisjunctiveSearch(SearchProblem problem, Stop& stop)
    : problem_(std::move(problem)), neighbours_(neighbours_of(problem_, stop)) {}

Decision DisjunctiveSearch::decide(std::int64_t capacity, std::int64_t node_limit,
                                   Branching branching, DisjunctiveRules rules, Stop& stop) const {
    return Engine(problem_, neighbours_, capacity, node_limit, branching, rules, stop).decide();
}

}  // namespace gapless
