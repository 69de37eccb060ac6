#include "exact/disjunctive_search.h"

#include <algorithm>
#include <array>
#include <bitset>
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
// together they lose no plan.
//
// In the same way a node has a greatest solution under the capacity. If, between both solutions,
// one of two unsafe members can no longer fit below the other, it must lie above, and the bounds of
// both move accordingly. This need not be recorded, because bounds only tighten and the pair is
// examined again whenever one of them moves. Intervals of two blocks that overlap are one interval,
// as are intervals between which alignment leaves no difference.
//
// A node is refuted if the two solutions cross, or if the bytes of a section do not fit above the
// lowest start of its members.
//
// Going back. Each bound is kept with the decisions that it rests on: those that the bounds it was
// concluded from rest on, and the decision that pushed it. If a node is refuted by bounds that do
// not rest on the decision of the node above, the other branch there is refuted by the same
// decisions. So it is not searched. Blocks whose bounds refute nodes are blamed. Of the overlaps
// the one comes first whose blocks have little room to part and much blame, so that decisions that
// refute something come early (Boussemart, Hemery, Lecoutre and Sais, ECAI 2004).
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
// Pairs may form such cycles too. So tightening stops after a number of examinations: every move is
// sound by itself, and the search branches on the rest.

namespace {

// Pairs, members and arcs examined between two checks for a stop. A guess.
constexpr std::int64_t kWorkPerCheck = 1 << 14;
// Limits the tightening in one node: examinations of a block's clashes, on average. A guess.
constexpr int kLooks = 16;
// Limits the depth of decisions to what a thread's stack holds. Deeper nodes stay undecided.
constexpr int kDeepest = 10'000;

// The depths of the decisions that a conclusion rests on. All depths from the last one on are one.
using Reasons = std::bitset<256>;

}  // namespace

class DisjunctiveSearch::Engine {
  public:
    Engine(const SearchProblem& problem, const Clashes& clashes, std::int64_t capacity,
           std::int64_t node_limit, bool forced, bool logs, std::vector<double>& blame, Stop& stop)
        : problem_(problem),
          clashes_(clashes),
          capacity_(capacity),
          node_limit_(node_limit),
          forced_(forced),
          logs_(logs),
          stop_(stop),
          blame_(blame),
          room_(problem.modulus.size()),
          waiting_(problem.modulus.size(), 0),
          moved_(problem.modulus.size(), 1),
          alive_(static_cast<std::size_t>(problem.sections)),
          total_(alive_.size(), 0) {
        const std::vector<std::int64_t> extent = problem.extents();
        for (std::int32_t m = 0; m < problem.member_count(); ++m) {
            for (const SectionRange& range : problem.ranges_of(m)) {
                for (std::int32_t s = range.first; s < range.last; ++s) {
                    alive_[s].push_back(m);
                    total_[s] += problem.size[m];
                }
            }
        }
        for (Side& side : sides_) {
            side.why.resize(room_.size());
            side.arcs.resize(room_.size());
        }
        for (std::int32_t b = 0; b < problem.block_count(); ++b) {
            period_ = std::max(period_, problem.modulus[b]);
            room_[b] = capacity - extent[b];
            const std::int64_t residue = problem.residue_of(b), pin = problem.pinned[b];
            sides_[kBottom].residue.push_back(residue);
            sides_[kTop].residue.push_back((room_[b] - residue) & (problem.modulus[b] - 1));
            sides_[kBottom].least.push_back(pin >= 0 ? pin : residue);
            sides_[kTop].least.push_back(pin >= 0 ? room_[b] - pin : sides_[kTop].residue[b]);
        }
    }

    Decision decide() {
        bool possible = true;
        for (std::int32_t b = 0; b < problem_.block_count(); ++b) {
            possible &= least(b) <= greatest(b) && sides_[kTop].least[b] >= 0;
            wait_for(b);
        }
        if (!possible) log_refuted();
        const Verdict verdict = possible ? explore() : Verdict::kRefuted;
        Decision decision{verdict, {}, counters_, {}};
        if (verdict == Verdict::kRefuted) decision.tree = std::move(tree_);
        if (verdict == Verdict::kFits) decision.offsets = sides_[kBottom].least;
        return decision;
    }

  private:
    enum SideName : std::uint8_t { kBottom, kTop };
    // The offset of `above` is at least the offset of `below` plus `distance`.
    struct Demand {
        std::int32_t below, above;
        std::int64_t distance;
    };
    // A demand, stored with the block that pushes: the other block is pushed `distance` further.
    struct Arc {
        std::int32_t other;
        std::int64_t distance;
        std::size_t depth;
    };
    struct Move {
        std::int32_t block;
        std::int64_t to;
        Reasons why;
    };
    // The least distance of a block from a side, and why, before a move.
    struct Change {
        SideName side;
        std::int32_t block;
        std::int64_t before;
        Reasons why;
    };
    // The bounds of all blocks, measured from the bottom or from the top of the memory. What holds
    // for one side holds for the other.
    struct Side {
        // One entry for each block: its least distance from the side, why it is no less, its
        // residue.
        std::vector<std::int64_t> least, residue;
        std::vector<Reasons> why;
        std::vector<std::vector<Arc>> arcs;
    };

    std::int64_t least(std::int32_t b) const { return sides_[kBottom].least[b]; }
    std::int64_t greatest(std::int32_t b) const { return room_[b] - sides_[kTop].least[b]; }
    std::int64_t bottom(std::int32_t member) const {
        return least(problem_.block[member]) + problem_.before[member];
    }
    std::size_t bit_of_depth() const {
        return std::min(static_cast<std::size_t>(depth_), Reasons().size() - 1);
    }

    Verdict explore() {
        if (counters_.nodes >= node_limit_ || depth_ == kDeepest) return Verdict::kNodeLimit;
        ++counters_.nodes;
        ++depth_;
        const std::size_t changes = changes_.size();
        Verdict verdict = Verdict::kRefuted;
        if (close_in()) {
            verdict = branch();
        } else {
            ++counters_.by_section;
            log_refuted();
        }
        if (verdict != Verdict::kFits) undo_to(changes);
        --depth_;
        return verdict;
    }

    Verdict branch() {
        const auto [a, clash] = worst_overlap();
        if (clash == nullptr) return Verdict::kFits;
        const std::int32_t b = clash->other;
        std::array<std::int32_t, 2> lowest{clash->member, clash->other_member};
        std::array<Demand, 2> branches{Demand{a, b, clash->above}, Demand{b, a, -clash->below}};
        // Try the branch that raises less first.
        if (least(a) + clash->above - least(b) > least(b) - clash->below - least(a)) {
            std::swap(branches[0], branches[1]);
            std::swap(lowest[0], lowest[1]);
        }
        if (logs_) tree_.insert(tree_.end(), {2, lowest[0], lowest[1]});
        Reasons why;
        const std::size_t here = bit_of_depth();
        for (const Demand& demand : branches) {
            const std::size_t changes = changes_.size();
            Verdict verdict = Verdict::kRefuted;
            if (put(demand)) {
                verdict = explore();
            } else {
                log_refuted();
            }
            if (verdict == Verdict::kFits) return verdict;
            undo_to(changes);
            sides_[kBottom].arcs[demand.below].pop_back();
            sides_[kTop].arcs[demand.above].pop_back();
            if (verdict == Verdict::kNodeLimit) return verdict;
            // A proof lists all branches.
            if (!conflict_[here] && !logs_) return verdict;
            if (here + 1 < conflict_.size()) conflict_.reset(here);
            why |= conflict_;
        }
        conflict_ = why;
        return Verdict::kRefuted;
    }

    bool put(const Demand& demand) {
        const auto& [below, above, distance] = demand;
        Reasons here;
        here.set(bit_of_depth());
        sides_[kBottom].arcs[below].push_back({above, distance, bit_of_depth()});
        sides_[kTop].arcs[above].push_back(
            {below, room_[below] - room_[above] + distance, bit_of_depth()});
        return impose(demand, here, below);
    }

    void log_refuted() {
        if (logs_) tree_.push_back(0);
    }

    bool may(const Demand& demand) const {
        return least(demand.below) + demand.distance <= greatest(demand.above);
    }

    // Moves the bounds of two blocks as a demand says.
    bool impose(const Demand& demand, const Reasons& reasons, std::int32_t decided = -1) {
        const auto& [below, above, distance] = demand;
        const std::int64_t up = least(below) + distance;
        if (least(above) < up &&
            !push(kBottom, above, up, reasons | sides_[kBottom].why[below], decided)) {
            return false;
        }
        const std::int64_t down =
            sides_[kTop].least[above] + room_[below] - room_[above] + distance;
        return sides_[kTop].least[below] >= down ||
               push(kTop, below, down, reasons | sides_[kTop].why[above]);
    }

    void undo_to(std::size_t changes) {
        while (changes_.size() > changes) {
            const Change& change = changes_.back();
            sides_[change.side].least[change.block] = change.before;
            sides_[change.side].why[change.block] = change.why;
            changes_.pop_back();
        }
        // Blocks whose moves are undone were examined before these moves, so nothing waits.
        for (const std::int32_t b : queue_) waiting_[b] = 0;
        queue_.clear();
        std::fill(moved_.begin(), moved_.end(), 0);
    }

    void wait_for(std::int32_t block) {
        if (waiting_[block]) return;
        waiting_[block] = 1;
        queue_.push_back(block);
    }

    // Pushes a block away from a side, and all blocks that decisions put beyond it. Returns false
    // if one has no room left, or if the newest decision, to put the block above `decided`,
    // contradicts the others.
    bool push(SideName name, std::int32_t block, std::int64_t to, const Reasons& reasons,
              std::int32_t decided = -1) {
        Side& side = sides_[name];
        const Side& opposite = sides_[1 - name];
        const std::int64_t contradiction = decided < 0 ? 0 : side.least[decided] + period_;
        open_.assign(1, {block, to, reasons});
        while (!open_.empty()) {
            const auto [b, at, why] = open_.back();
            open_.pop_back();
            if (side.least[b] >= at) continue;
            const std::int64_t aligned = at + ((side.residue[b] - at) & (problem_.modulus[b] - 1));
            if (aligned + opposite.least[b] > room_[b] ||
                (b == decided && aligned >= contradiction)) {
                conflict_ = why | opposite.why[b];
                ++blame_[b];
                ++blame_[block];
                return false;
            }
            changes_.push_back({name, b, side.least[b], side.why[b]});
            side.least[b] = aligned;
            side.why[b] = why;
            if (name == kBottom) moved_[b] = 1;
            wait_for(b);
            look_at_the_clock(1 + static_cast<std::int64_t>(side.arcs[b].size()));
            for (const Arc& arc : side.arcs[b]) {
                open_.push_back({arc.other, aligned + arc.distance, why});
                open_.back().why.set(arc.depth);
            }
        }
        return true;
    }

    // Tightens bounds by clashes until nothing moves or the looks are used up. Returns false if the
    // node is refuted.
    bool close_in() {
        std::int64_t looks = kLooks * static_cast<std::int64_t>(room_.size());
        while (!queue_.empty()) {
            const std::int32_t block = queue_.back();
            queue_.pop_back();
            waiting_[block] = 0;
            if (forced_ && --looks >= 0 && !settle_clashes_of(block)) return false;
        }
        return sections_fit();
    }

    bool settle_clashes_of(std::int32_t a) {
        look_at_the_clock(static_cast<std::int64_t>(clashes_[a].size()));
        for (const Clash& clash : clashes_[a]) {
            const std::int32_t b = clash.other;
            const Demand upper{a, b, clash.above}, lower{b, a, -clash.below};
            const bool is_above = may(upper), is_below = may(lower);
            if (is_above && is_below) continue;
            const auto& [bottom, top] = sides_;
            if (!is_above && !is_below) {
                conflict_ = bottom.why[a] | top.why[a] | bottom.why[b] | top.why[b];
                ++blame_[a];
                ++blame_[b];
                return false;
            }
            if (is_above ? !impose(upper, bottom.why[b] | top.why[a])
                         : !impose(lower, bottom.why[a] | top.why[b])) {
                return false;
            }
        }
        return true;
    }

    // Examines the sections in which a block has moved. The lowest member of a section has the
    // bytes of all of them above its start.
    bool sections_fit() {
        entered_.assign(alive_.size() + 1, 0);
        for (std::int32_t m = 0; m < problem_.member_count(); ++m) {
            if (!moved_[problem_.block[m]]) continue;
            for (const SectionRange& range : problem_.ranges_of(m)) {
                ++entered_[range.first];
                --entered_[range.last];
            }
        }
        std::fill(moved_.begin(), moved_.end(), 0);
        int moved = 0;
        for (std::size_t s = 0; s < alive_.size(); ++s) {
            moved += entered_[s];
            if (moved == 0 || alive_[s].empty()) continue;
            look_at_the_clock(static_cast<std::int64_t>(alive_[s].size()));
            const std::int64_t most = capacity_ - total_[s];
            if (std::all_of(alive_[s].begin(), alive_[s].end(),
                            [&](std::int32_t m) { return bottom(m) > most; })) {
                conflict_.reset();
                for (const std::int32_t m : alive_[s]) {
                    conflict_ |= sides_[kBottom].why[problem_.block[m]];
                }
                return false;
            }
        }
        return true;
    }

    // Two blocks whose least offsets clash.
    struct Overlap {
        std::int32_t block = -1;
        const Clash* clash = nullptr;
    };

    // Returns the overlap of the largest weight; ties go to the earliest.
    Overlap worst_overlap() {
        Overlap worst;
        double most = -std::numeric_limits<double>::infinity();
        for (std::int32_t a = 0; a < problem_.block_count(); ++a) {
            look_at_the_clock(static_cast<std::int64_t>(clashes_[a].size()));
            for (const Clash& clash : clashes_[a]) {
                const std::int64_t apart = least(clash.other) - least(a);
                if (clash.other < a || apart <= clash.below || apart >= clash.above) continue;
                const double weight = weight_of(a, clash);
                if (weight <= most) continue;
                most = weight;
                worst = {a, &clash};
            }
        }
        return worst;
    }

    double weight_of(std::int32_t a, const Clash& clash) const {
        const std::int32_t b = clash.other;
        const std::int64_t room =
            std::max(greatest(b) - least(a) - clash.above, greatest(a) - least(b) + clash.below);
        return -static_cast<double>(room + 1) / (blame_[a] + blame_[b]);
    }

    void look_at_the_clock(std::int64_t work) {
        work_ += work;
        if (work_ < kWorkPerCheck) return;
        work_ = 0;
        stop_.check();
    }

    const SearchProblem& problem_;
    const Clashes& clashes_;
    const std::int64_t capacity_, node_limit_;
    const bool forced_, logs_;
    Stop& stop_;
    std::vector<double>& blame_;
    std::int64_t work_ = 0;
    int depth_ = 0;
    // The largest modulus.
    std::int64_t period_ = 1;
    SearchCounters counters_;
    std::array<Side, 2> sides_;
    // The greatest offset of each block under the capacity.
    std::vector<std::int64_t> room_;
    // Blocks that moved and whose clashes must be examined.
    std::vector<std::int32_t> queue_;
    std::vector<char> waiting_;
    // Blocks whose least offset moved and whose sections must be examined.
    std::vector<char> moved_;
    std::vector<Change> changes_;
    std::vector<std::int32_t> tree_;
    // Why the last node was refuted.
    Reasons conflict_;
    // Members and bytes of each section.
    std::vector<std::vector<std::int32_t>> alive_;
    std::vector<std::int64_t> total_;
    // Scratch.
    std::vector<Move> open_;
    std::vector<int> entered_;
};

DisjunctiveSearch::DisjunctiveSearch(SearchProblem problem, Stop& stop)
    : problem_(std::move(problem)),
      neighbours_(neighbours_of(problem_, stop)),
      clashes_(clashes_of(problem_, neighbours_, true, stop)),
      blame_(problem_.modulus.size(), 1.0) {}

Decision DisjunctiveSearch::decide(std::int64_t capacity, std::int64_t node_limit, bool forced,
                                   bool logs, Stop& stop) {
    // A logged decision names two members, so clashes stay apart.
    const auto apart = logs ? clashes_of(problem_, neighbours_, false, stop) : Clashes();
    return Engine(problem_, logs ? apart : clashes_, capacity, node_limit, forced, logs, blame_,
                  stop)
        .decide();
}

}  // namespace gapless
