#include "exact/disjunctive_search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gapless {

// Note [Disjunctive search]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// A chain may lie below a tensor with one member and above the same tensor with another, and two
// chains may interlock. So no order of the blocks builds all plans from below. A plan is decided by
// the differences of offsets. For two blocks with unsafe members, certain differences are
// forbidden; these form open intervals, and in every plan the difference lies at or beyond one end
// of each interval. A node is a set of decisions "offset of b is at least offset of a plus d".
// Solutions of the decisions, the alignments and the pins are closed under the minimum, taken block
// by block. So a node has a least solution, found by raising offsets until no rule is broken. Every
// plan of the node lies at or above it. If the least solution has no overlap, it is the plan of the
// node with the lowest peak. Otherwise some two blocks have a forbidden difference: one branch
// demands the upper end of its interval, the other the lower end. Both branches are exact, and
// together they lose no plan. Or the branches say which of some members of a section is the lowest.
//
// In the same way a node has a greatest solution under the capacity. If, between both solutions,
// one of two unsafe members can no longer fit below the other, it must lie above, and the bounds of
// both move accordingly. This need not be recorded, because bounds only tighten and the pair is
// examined again whenever one of them moves.
//
// A node is refuted if the two solutions cross, or by the bytes of a section, as in Note [Canonical
// search]: one member is lowest in the section and all others lie above it; members that would then
// exceed the capacity lie above the end of a member that may be lowest. If only one member may be
// lowest, the others are a section above it, for which the same holds.
//
// Termination. Offsets are integers, grow with every decision, and are bounded by the capacity. An
// interval stays decided.
//
// Contradiction. Decisions may demand more than a chain leaves between its members. Then two blocks
// raise each other, by as little as one unit a turn, and the capacity would end this only after as
// many turns. Such a cycle contains the newest decision, "b above a", as the decisions before it
// had a solution. Let x be the offset of a, and P the largest modulus, which all other moduli
// divide. The offsets that the decision raises follow from x alone. If a solution exists, moving
// all of it down by P keeps decisions and alignments. So there is a solution, perhaps below 0, with
// a in [x, x + P), and all raised offsets stay at or below it. So the node is refuted as soon as
// its newest decision raises a itself to x + P. Once decisions have a solution, lowering the
// greatest solution ends as well.
//
// Pairs and sections may form such cycles too. So tightening stops after a number of rounds: every
// move is sound by itself, and the search branches on the rest.

namespace {

// Pairs, members and arcs examined between two checks for a stop. A guess.
constexpr std::int64_t kWorkPerCheck = 1 << 14;
// Limits the tightening in one node: examinations of each block's pairs, on average, and of all
// sections. A guess.
constexpr int kRounds = 16;
// Limits the depth of decisions to what a thread's stack holds. Deeper nodes stay undecided.
constexpr int kDeepest = 10'000;

}  // namespace

class DisjunctiveSearch::Engine {
  public:
    Engine(const SearchProblem& problem, const Neighbours& neighbours, std::int64_t capacity,
           std::int64_t node_limit, Branching branching, DisjunctiveRules rules, bool logs,
           Stop& stop)
        : problem_(problem),
          neighbours_(neighbours),
          capacity_(capacity),
          node_limit_(node_limit),
          branching_(branching),
          rules_(rules),
          logs_(logs),
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
        if (!possible) log_refuted();
        const Verdict verdict = possible ? explore() : Verdict::kRefuted;
        Decision decision{verdict, {}, counters_, {}};
        if (verdict == Verdict::kRefuted) decision.tree = std::move(tree_);
        if (verdict == Verdict::kFits) decision.offsets = offset_;
        return decision;
    }

  private:
    // A decision, stored with both blocks: the other block lies at least `distance` above, or
    // below.
    struct Arc {
        std::int32_t other;
        std::int64_t distance;
    };
    // The least offset of a block before a move; or, stored as ~block, its greatest offset.
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
            log_refuted();
        }
        if (verdict != Verdict::kFits) undo_to(changes);
        --depth_;
        return verdict;
    }

    Verdict branch(Overlap overlap) {
        std::vector<std::int32_t> lowest{overlap.a, overlap.b};
        // Try the branch that raises less first.
        if (top(overlap.a) - bottom(overlap.b) > top(overlap.b) - bottom(overlap.a)) {
            std::swap(lowest[0], lowest[1]);
        }
        if (branching_ == Branching::kLowest) take_open_section(lowest);
        if (logs_) {
            tree_.push_back(static_cast<std::int32_t>(lowest.size()));
            tree_.insert(tree_.end(), lowest.begin(), lowest.end());
        }
        for (const std::int32_t m : lowest) {
            const std::size_t changes = changes_.size();
            Verdict verdict = Verdict::kRefuted;
            if (put_lowest(m, lowest)) {
                verdict = explore();
            } else {
                log_refuted();
            }
            if (verdict == Verdict::kFits) return verdict;
            undo_to(changes);
            const std::int32_t below = problem_.block[m];
            for (std::size_t i = 1; i < lowest.size(); ++i) {
                below_[above_[below].back().other].pop_back();
                above_[below].pop_back();
            }
            if (verdict == Verdict::kNodeLimit) return verdict;
        }
        return Verdict::kRefuted;
    }

    // Decides that a member lies below all others.
    bool put_lowest(std::int32_t lowest, const std::vector<std::int32_t>& members) {
        const std::int32_t from = problem_.block[lowest];
        for (const std::int32_t m : members) {
            if (m == lowest) continue;
            const std::int64_t distance = end_in_block(lowest) - problem_.before[m];
            above_[from].push_back({problem_.block[m], distance});
            below_[problem_.block[m]].push_back({from, distance});
        }
        for (const std::int32_t m : members) {
            if (m != lowest && !put_below(lowest, m, from)) return false;
        }
        return true;
    }

    // Replaces the members by those that may be the lowest of a section, of which there are fewest.
    // Members that all others of the section lie above already are left out.
    void take_open_section(std::vector<std::int32_t>& chosen) {
        std::size_t fewest = std::numeric_limits<std::size_t>::max();
        for (std::size_t s = 0; s < alive_.size(); ++s) {
            std::vector<std::int32_t> open = alive_[s];
            std::sort(open.begin(), open.end(),
                      [&](std::int32_t a, std::int32_t b) { return bottom(a) < bottom(b); });
            std::int64_t room = capacity_ - total_[s];
            auto first = open.begin();
            while (open.end() - first > 1 && top(*first) <= bottom(first[1])) {
                room += problem_.size[*first++];
            }
            const auto last = std::partition_point(
                first, open.end(), [&](std::int32_t m) { return bottom(m) <= room; });
            const auto count = static_cast<std::size_t>(last - first);
            if (count < 2 || count >= fewest) continue;
            fewest = count;
            chosen.assign(first, last);
        }
    }

    void log_refuted() {
        if (logs_) tree_.push_back(0);
    }

    std::int64_t end_in_block(std::int32_t member) const {
        return problem_.before[member] + problem_.size[member];
    }

    // Moves the bounds of two members so that `lower` lies below `upper`.
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
        // Blocks whose moves are undone were examined before these moves, so the queue can be
        // dropped.
        for (const std::int32_t b : queue_) waiting_[b] = 0;
        queue_.clear();
    }

    void wait_for(std::int32_t block) {
        if (waiting_[block]) return;
        waiting_[block] = 1;
        queue_.push_back(block);
    }

    // Raises the least offset of a block, and of all blocks that decisions put above it. Returns
    // false if one exceeds its greatest offset, or if the newest decision, to put the block above
    // `below`, contradicts the others.
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

    // Lowers the greatest offset of a block, and of all blocks that decisions put below it.
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

    // Tightens bounds by pairs and by sections until nothing moves or the rounds are used up.
    // Returns false if the node is refuted.
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
            above_lowest_ = alive_[s];
            std::int64_t room = capacity_ - total_[s];
            while (!above_lowest_.empty()) {
                look_at_the_clock(static_cast<std::int64_t>(above_lowest_.size()));
                constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
                std::int64_t least_end = kNone;
                std::size_t may_be_lowest = 0, lowest = 0;
                for (std::size_t i = 0; i < above_lowest_.size(); ++i) {
                    const std::int32_t m = above_lowest_[i];
                    if (bottom(m) > room) continue;
                    least_end = std::min(least_end, top(m));
                    ++may_be_lowest;
                    lowest = i;
                }
                if (may_be_lowest == 0) return false;
                if (!rules_.lowest) break;
                for (const std::int32_t m : above_lowest_) {
                    if (bottom(m) <= room || bottom(m) >= least_end) continue;
                    if (!raise(problem_.block[m], least_end - problem_.before[m])) return false;
                    ++counters_.raised;
                }
                if (may_be_lowest > 1) break;
                room += problem_.size[above_lowest_[lowest]];
                above_lowest_[lowest] = above_lowest_.back();
                above_lowest_.pop_back();
            }
        }
        return true;
    }

    // Returns the overlapping pair of the largest weight; ties go to the earliest.
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
    const bool logs_;
    Stop& stop_;
    std::int64_t work_ = 0;
    int depth_ = 0;
    // The largest modulus.
    std::int64_t period_ = 1;
    SearchCounters counters_;
    // The least and the greatest offset of each block.
    std::vector<std::int64_t> offset_, most_;
    std::vector<std::vector<Arc>> above_, below_;
    // Blocks that moved and whose pairs must be examined.
    std::vector<std::int32_t> queue_;
    std::vector<char> waiting_;
    std::vector<std::vector<std::int32_t>> members_;
    std::vector<Change> changes_;
    std::vector<std::int32_t> tree_;
    std::vector<std::pair<std::int32_t, std::int64_t>> open_;
    // Members and bytes of each section.
    std::vector<std::vector<std::int32_t>> alive_;
    std::vector<std::int64_t> total_;
    // Scratch: the members of a section above those that are known to be lowest.
    std::vector<std::int32_t> above_lowest_;
};

DisjunctiveSearch::DisjunctiveSearch(SearchProblem problem, Stop& stop)
    : problem_(std::move(problem)), neighbours_(neighbours_of(problem_, stop)) {}

Decision DisjunctiveSearch::decide(std::int64_t capacity, std::int64_t node_limit,
                                   Branching branching, DisjunctiveRules rules, bool logs,
                                   Stop& stop) const {
    return Engine(problem_, neighbours_, capacity, node_limit, branching, rules, logs, stop)
        .decide();
}

}  // namespace gapless
