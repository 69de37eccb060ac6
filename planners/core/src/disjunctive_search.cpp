#include "disjunctive_search.h"

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
// A node is refuted if a block of its least solution passes the capacity or its pin, or by the
// bytes in a section, as in Note [Canonical search]: one member is lowest there, all others lie
// above it; members that would then pass the capacity lie above the end of one that may be lowest.
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
// refuted as soon as its newest decision raises a itself to x + P.
//
// The test of the sections may run in such a circle as well, so it ends after kRounds rounds; every
// raise is sound by itself, and what is left is branched on.

namespace {

constexpr std::int64_t kMostNeighbours = std::int64_t{1} << 24;
constexpr std::int64_t kWorkPerCheck = 1 << 14;
constexpr int kRounds = 16;

}  // namespace

class DisjunctiveSearch::Engine {
  public:
    Engine(const SearchProblem& problem, const Neighbours& neighbours, std::int64_t capacity,
           std::int64_t node_limit, DisjunctiveRules rules, Stop& stop)
        : problem_(problem),
          neighbours_(neighbours),
          capacity_(capacity),
          node_limit_(node_limit),
          rules_(rules),
          stop_(stop),
          after_(problem.modulus.size()),
          alive_(static_cast<std::size_t>(problem.sections)),
          total_(alive_.size(), 0) {
        std::vector<std::int64_t> extent(problem.modulus.size(), 0);
        for (std::int32_t m = 0; m < problem.member_count(); ++m) {
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
        }
    }

    Decision decide() {
        bool possible = true;
        for (std::size_t b = 0; b < offset_.size(); ++b) possible &= offset_[b] <= most_[b];
        const Verdict verdict = possible ? explore() : Verdict::kRefuted;
        Decision decision{verdict, {}, counters_};
        if (verdict == Verdict::kFits) decision.offsets = offset_;
        return decision;
    }

  private:
    // "At least `distance` above": a decision, kept with the block that it is about.
    struct Arc {
        std::int32_t to;
        std::int64_t distance;
    };
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

    Verdict explore() {
        if (counters_.nodes >= node_limit_) return Verdict::kNodeLimit;
        ++counters_.nodes;
        const std::size_t changes = changes_.size();
        Verdict verdict = Verdict::kRefuted;
        if (raise_in_sections()) {
            const Overlap overlap = largest_overlap();
            verdict = overlap.a < 0 ? Verdict::kFits : branch(overlap);
        } else {
            ++counters_.by_section;
        }
        if (verdict != Verdict::kFits) undo_to(changes);
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
            const std::int64_t distance =
                problem_.before[overlap.a] + problem_.size[overlap.a] - problem_.before[overlap.b];
            after_[from].push_back({to, distance});
            Verdict verdict = Verdict::kRefuted;
            if (raise(to, offset_[from] + distance, from)) verdict = explore();
            if (verdict == Verdict::kFits) return verdict;
            undo_to(changes);
            after_[from].pop_back();
            if (verdict == Verdict::kNodeLimit) return verdict;
            std::swap(overlap.a, overlap.b);
        }
        return Verdict::kRefuted;
    }

    void undo_to(std::size_t changes) {
        while (changes_.size() > changes) {
            offset_[changes_.back().block] = changes_.back().before;
            changes_.pop_back();
        }
    }

    // Raises a block and all that decisions put above it; false where one passes its limit, or
    // where a decision to raise it above `below` contradicts those before.
    bool raise(std::int32_t block, std::int64_t to, std::int32_t below = -1) {
        const std::int64_t contradiction = below < 0 ? 0 : offset_[below] + period_;
        std::vector<std::pair<std::int32_t, std::int64_t>>& open = open_;
        open.assign(1, {block, to});
        while (!open.empty()) {
            const auto [b, at] = open.back();
            open.pop_back();
            if (offset_[b] >= at) continue;
            const std::int64_t aligned =
                at + ((problem_.residue[b] - at) & (problem_.modulus[b] - 1));
            if (aligned > most_[b]) return false;
            if (b == below && aligned >= contradiction) return false;
            changes_.push_back({b, offset_[b]});
            offset_[b] = aligned;
            look_at_the_clock(1 + static_cast<std::int64_t>(after_[b].size()));
            for (const Arc& arc : after_[b]) open.push_back({arc.to, aligned + arc.distance});
        }
        return true;
    }

    bool raise_in_sections() {
        bool rose = true;
        for (int round = 0; rose && round < kRounds; ++round) {
            rose = false;
            for (std::size_t s = 0; s < alive_.size(); ++s) {
                look_at_the_clock(static_cast<std::int64_t>(alive_[s].size()));
                std::int64_t least_end = std::numeric_limits<std::int64_t>::max();
                const std::int64_t room = capacity_ - total_[s];
                for (const std::int32_t m : alive_[s]) {
                    if (bottom(m) <= room) least_end = std::min(least_end, top(m));
                }
                if (alive_[s].empty()) continue;
                if (least_end == std::numeric_limits<std::int64_t>::max()) return false;
                if (!rules_.lowest) continue;
                for (const std::int32_t m : alive_[s]) {
                    if (bottom(m) <= room || bottom(m) >= least_end) continue;
                    if (!raise(problem_.block[m], least_end - problem_.before[m])) return false;
                    ++counters_.raised;
                    rose = true;
                }
            }
        }
        return true;
    }

    // The two overlapping members whose smaller one is largest; the earliest of equals.
    Overlap largest_overlap() {
        Overlap worst;
        std::int64_t largest = 0;
        for (std::int32_t a = 0; a < problem_.member_count(); ++a) {
            if (problem_.size[a] <= largest) continue;
            const auto others = neighbours_.of(a);
            look_at_the_clock(static_cast<std::int64_t>(others.size()));
            for (const std::int32_t b : others) {
                const std::int64_t smaller = std::min(problem_.size[a], problem_.size[b]);
                if (smaller <= largest || bottom(a) >= top(b) || bottom(b) >= top(a)) continue;
                largest = smaller;
                worst = {a, b};
            }
        }
        return worst;
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
    const DisjunctiveRules rules_;
    Stop& stop_;
    std::int64_t work_ = 0;
    // The largest modulus.
    std::int64_t period_ = 1;
    SearchCounters counters_;
    // Least and largest offset of each block.
    std::vector<std::int64_t> offset_, most_;
    std::vector<std::vector<Arc>> after_;
    std::vector<Change> changes_;
    std::vector<std::pair<std::int32_t, std::int64_t>> open_;
    // Members and bytes of each section.
    std::vector<std::vector<std::int32_t>> alive_;
    std::vector<std::int64_t> total_;
};

DisjunctiveSearch::DisjunctiveSearch(SearchProblem problem)
    : problem_(std::move(problem)), neighbours_(neighbours_of(problem_, kMostNeighbours)) {}

Decision DisjunctiveSearch::decide(std::int64_t capacity, std::int64_t node_limit,
                                   DisjunctiveRules rules, Stop& stop) const {
    return Engine(problem_, neighbours_, capacity, node_limit, rules, stop).decide();
}

}  // namespace gapless
