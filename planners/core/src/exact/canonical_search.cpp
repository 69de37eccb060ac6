#include "exact/canonical_search.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "exact/canonical_state.h"
#include "exact/refuted_states.h"
#include "model/require.h"

namespace gapless {

// Note [Canonical search]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Active plans are the canonical solutions of Moffitt 2023. The idea of dominance is his as well.
//
// A plan is active if no tensor without a pin can move to a lower offset while all others stay.
// Moving tensors down one by one ends in an active plan with no higher peak, since the sum of the
// offsets falls. So the search need only consider active plans. It builds a plan in the order of
// (offset, rank), where the ranks are any fixed order of the tensors. When tensor t is next, low(t)
// is its least aligned offset above all placed neighbours, or its pin.
//
// Offset. In an active plan t lies at low(t). It lies above its placed neighbours, whose offsets
// are no higher. If it were higher than low(t), it could move down to low(t), since its unplaced
// neighbours lie above its present end. So a node branches over tensors, not over offsets.
//
// Position. (lo, li) is the offset and rank of the tensor placed last; all unplaced tensors come
// later. A tensor u with (low(u), rank) before that position is *passed over*: in the end it lies
// above low(u). As the plan is active, something blocks low(u): an unplaced neighbour z with an
// offset below low(u) + size(u), and u lies above z. So u lies at or above the least bound(z) +
// size(z) over the neighbours with bound(z) < low(u) + size(u). If there is no such neighbour, the
// node is refuted.
//
// Dominance. Suppose that the next offset is not below low(u) + size(u) for some unplaced u. Then
// no later tensor lies below that end, and u could move down to low(u): the plan is not active. So
// candidates at or above the least such end are skipped.
//
// Sections. One of the unplaced tensors of a section is lowest there, and the others lie above it.
// So the plan reaches at least its offset plus the unplaced bytes of the section. A tensor whose
// bound would then exceed the capacity is not lowest; it lies above the end of a tensor that may be
// lowest. If no tensor may be lowest, the node is refuted. This contains the usual test, least
// bound plus unplaced bytes. Without the rule `lowest` only the usual test is used.
//
// Pins. An unplaced pinned neighbour lies either above t or below t. So a bound that would reach
// into it is raised to its end. All arguments above hold for a pinned tensor: it cannot move, but
// it need not.
//
// Identical tensors may exchange their offsets, so the one of lower rank comes first.
//
// Split. Parts that share no section cannot disturb each other. Each part is a problem of its own
// above the tensors placed so far, with ranks of its own and no position yet. If one part is
// refuted, so is the node. For a part, "active" means that a tensor cannot move down within the
// space above the tensors placed before the split.
//
// Memory. Candidates are tried in the order of (offset, rank), so within a part the search visits
// sequences in lexicographic order. Suppose that a state with the same unplaced tensors, and with
// lows and a position that are no higher, was refuted earlier in this part, and that the present
// state has a completion. The completion would complete the earlier state as well. Make that plan
// active: its sorted sequence is no later in the order, so the search would have visited it before
// it left the earlier state, and would have ended. So the present state is refuted. Trying
// candidates in another order (`wander`) breaks this argument.
//
// Bounds are raised in at most kRounds rounds; every round is sound by itself. The bounds of a node
// hold for its children, so children start from them. They do not hold across a split, where new
// ranks decide anew which of two identical tensors comes first.

namespace {

// Tensor visits between two checks for a stop. A visit takes some nanoseconds for each section.
constexpr std::int64_t kWorkPerCheck = 1 << 15;
constexpr std::int64_t kNarrow = std::int64_t{1} << 29;

using Tensors = std::span<const std::int32_t>;

const SearchProblem& require_single(const SearchProblem& problem) {
    require_length("size", problem.size.size(), "block", problem.modulus.size());
    for (std::int32_t t = 0; t < problem.member_count(); ++t) {
        if (problem.block[t] != t)
            refuse("block", t, "a member a block is needed", problem.block[t]);
        if (problem.before[t] != 0) refuse("before", t, "a block of one, 0", problem.before[t]);
    }
    return problem;
}

std::vector<std::int32_t> identical_groups(const SearchProblem& problem) {
    using Look = std::tuple<std::int64_t, std::int64_t, std::int64_t,
                            std::vector<std::pair<std::int32_t, std::int32_t>>>;
    std::map<Look, std::int32_t> groups;
    std::vector<std::int32_t> group;
    for (std::int32_t t = 0; t < problem.member_count(); ++t) {
        if (problem.pinned[t] >= 0) {
            group.push_back(-1);
            continue;
        }
        Look look{problem.size[t], problem.modulus[t], problem.residue[t], {}};
        for (const SectionRange& range : problem.ranges_of(t)) {
            std::get<3>(look).emplace_back(range.first, range.last);
        }
        const auto next = static_cast<std::int32_t>(groups.size());
        group.push_back(groups.try_emplace(std::move(look), next).first->second);
    }
    return group;
}

}  // namespace

template <class Bytes>
class CanonicalSearch::Engine {
  public:
    Engine(const SearchProblem& problem, const Neighbours& neighbours,
           const std::vector<std::int32_t>& group)
        : group_(group),
          count_(problem.member_count()),
          state_(problem, neighbours),
          bounds_(state_),
          by_first_(group.size()),
          place_by_first_(group.size()),
          seen_(group.size() + 1) {
        std::mt19937_64 random(1);
        for (std::int32_t t = 0; t < count_; ++t) hash_.push_back(random());
        std::iota(by_first_.begin(), by_first_.end(), 0);
        std::stable_sort(by_first_.begin(), by_first_.end(), [&](std::int32_t a, std::int32_t b) {
            return std::tie(state_.first[a], state_.last[a], state_.size[b]) <
                   std::tie(state_.first[b], state_.last[b], state_.size[a]);
        });
        for (std::int32_t i = 0; i < count_; ++i) place_by_first_[by_first_[i]] = i;
    }

    Decision decide(const CanonicalQuestion& question, Stop& stop) {
        start(question, stop);
        Verdict verdict = Verdict::kFits;
        if (count_ > 0) {
            std::vector<std::int32_t> all(by_first_);
            verdict = explore_parts(all);
        }
        Decision decision{verdict, {}, counters_, {}};
        if (verdict == Verdict::kFits) {
            decision.offsets.assign(state_.low.begin(), state_.low.end());
        }
        return decision;
    }

  private:
    using Position = typename RefutedStates<Bytes>::Position;

    // A part: its sections [first, last), and a number that distinguishes it from other parts.
    struct Part {
        std::int32_t first, last;
        std::uint64_t key;
    };
    struct Candidate {
        Bytes offset;
        std::int32_t rank, tensor;
        bool operator<(const Candidate& other) const {
            return std::tie(offset, rank) < std::tie(other.offset, other.rank);
        }
    };

    void start(const CanonicalQuestion& question, Stop& stop) {
        question_ = &question;
        stop_ = &stop;
        counters_ = {};
        random_.seed(question.seed);
        state_.start(question.capacity);
        bounds_.start(question.rules, counters_);
        std::fill(seen_.begin(), seen_.end(), -1);
        arena_.clear();
        kept_bounds_.clear();
        candidates_.clear();
        states_.clear();
        parts_ = 0;
    }

    // Explores tensors that share no section with other unplaced tensors, part by part. `tensors`
    // are sorted by their first section.
    Verdict explore_parts(std::vector<std::int32_t>& tensors) {
        struct Run {
            std::size_t begin, end;
            std::int32_t first, last;
        };
        std::vector<Run> runs;
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            const std::int32_t t = tensors[i];
            const bool apart = !runs.empty() && state_.first[t] >= runs.back().last;
            if (runs.empty() || (apart && question_->rules.split)) {
                runs.push_back({i, i, state_.first[t], state_.last[t]});
            }
            runs.back().end = i + 1;
            runs.back().last = std::max(runs.back().last, state_.last[t]);
        }
        std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
            return a.end - a.begin < b.end - b.begin;
        });
        const std::size_t placed = state_.placed();
        for (const Run& run : runs) {
            const std::size_t begin = arena_.size();
            arena_.insert(arena_.end(), tensors.begin() + static_cast<std::ptrdiff_t>(run.begin),
                          tensors.begin() + static_cast<std::ptrdiff_t>(run.end));
            rank_part(begin);
            for (std::size_t i = begin; i < arena_.size(); ++i) bounds_.bound[arena_[i]] = 0;
            const Part part{run.first, run.last, ++parts_ * 0x9E3779B97F4A7C15ULL};
            std::uint64_t key = part.key;
            for (std::size_t i = begin; i < arena_.size(); ++i) key ^= hash_[arena_[i]];
            const Verdict verdict = explore(begin, key, {-1, -1}, part);
            arena_.resize(begin);
            if (verdict != Verdict::kFits) {
                state_.undo_to(placed);
                return verdict;
            }
        }
        return Verdict::kFits;
    }

    // Sorts the tensors from `begin` on by the keys of the order, and ranks them.
    void rank_part(std::size_t begin) {
        struct Ranked {
            std::array<double, 4> key;
            std::int32_t tensor;
        };
        std::vector<Ranked> ranked;
        for (std::size_t i = begin; i < arena_.size(); ++i) {
            Ranked entry{{}, arena_[i]};
            const auto& order = question_->order;
            for (std::size_t k = 0; k < std::min<std::size_t>(order.size(), 4); ++k) {
                entry.key[k] = sort_key(order[k], arena_[i]);
            }
            ranked.push_back(entry);
        }
        std::sort(ranked.begin(), ranked.end(), [&](const Ranked& a, const Ranked& b) {
            return std::tie(a.key, place_by_first_[a.tensor]) <
                   std::tie(b.key, place_by_first_[b.tensor]);
        });
        for (std::size_t i = 0; i < ranked.size(); ++i) {
            arena_[begin + i] = ranked[i].tensor;
            bounds_.rank[ranked[i].tensor] = static_cast<std::int32_t>(i);
        }
    }

    // Returns a key by which the tensor with the smallest value comes first.
    double sort_key(SearchKey key, std::int32_t t) const {
        const SearchProblem& problem = state_.problem;
        Bytes most = 0;
        std::int32_t count = 0;
        switch (key) {
            case SearchKey::kSectionTotal:
                state_.for_sections(t, [&](std::int32_t s) {
                    most = std::max<Bytes>(most, state_.height[s] + state_.remaining[s]);
                });
                return -static_cast<double>(most);
            case SearchKey::kSectionLeft:
                state_.for_sections(
                    t, [&](std::int32_t s) { most = std::max(most, state_.remaining[s]); });
                return -static_cast<double>(most);
            case SearchKey::kSectionCount:
                state_.for_sections(t, [&](std::int32_t) { ++count; });
                return -count;
            case SearchKey::kLifetime:
                return -problem.lifetime[t];
            case SearchKey::kArea:
                return -problem.lifetime[t] * static_cast<double>(problem.size[t]);
            case SearchKey::kSize:
                return -static_cast<double>(problem.size[t]);
            case SearchKey::kEarliestStart:
                return state_.first[t];
            case SearchKey::kLatestStart:
                return -state_.first[t];
            case SearchKey::kLatestEnd:
                return -state_.last[t];
            case SearchKey::kEarliestEnd:
                return state_.last[t];
        }
        return 0;
    }

    // Explores the part that consists of the arena's tensors from `begin` on, in the order of rank.
    Verdict explore(std::size_t begin, std::uint64_t key, Position position, const Part& part) {
        const std::size_t end = arena_.size();
        if (begin == end) return Verdict::kFits;
        if (counters_.nodes >= question_->node_limit) return Verdict::kNodeLimit;
        ++counters_.nodes;
        look_at_the_clock(static_cast<std::int64_t>(end - begin));
        const bool remembers = question_->rules.memory && question_->wander == 0;
        const auto tensors = [&] { return Tensors(arena_.data() + begin, end - begin); };
        if (remembers && states_.recall(key, tensors(), state_.low, position)) {
            ++counters_.by_memory;
            return Verdict::kRefuted;
        }
        const std::size_t first_candidate = candidates_.size();
        Verdict verdict = Verdict::kRefuted;
        if (bounds_.raise(tensors(), position, {part.first, part.last})) {
            const std::size_t kept = kept_bounds_.size();
            kept_bounds_.resize(kept + end - begin);
            for (std::size_t i = begin; i < end; ++i)
                kept_bounds_[kept + i - begin] = bounds_.bound[arena_[i]];
            collect_candidates(tensors(), position);
            for (std::size_t c = first_candidate; c < candidates_.size(); ++c) {
                for (std::size_t i = begin; i < end; ++i)
                    bounds_.bound[arena_[i]] = kept_bounds_[kept + i - begin];
                verdict = branch(candidates_[c], begin, end, key, part);
                if (verdict != Verdict::kRefuted) break;
            }
            candidates_.resize(first_candidate);
            kept_bounds_.resize(kept);
            if (verdict == Verdict::kRefuted && remembers) {
                lows_.clear();
                for (const std::int32_t t : tensors()) lows_.push_back(state_.low[t]);
                states_.remember(key, tensors(), lows_, position);
            }
        }
        return verdict;
    }

    Verdict branch(Candidate next, std::size_t begin, std::size_t end, std::uint64_t key,
                   const Part& part) {
        const std::size_t placed = state_.placed();
        Verdict verdict = Verdict::kRefuted;
        bounds_.forget(next.tensor);
        if (state_.place(next.tensor)) {
            if (splits(next.tensor, part)) {
                ++counters_.splits;
                verdict = explore_rest(next.tensor, begin, end);
            } else {
                arena_.resize(end + end - begin - 1);
                const auto all = arena_.begin();
                std::remove_copy(all + begin, all + end, all + end, next.tensor);
                verdict = explore(end, key ^ hash_[next.tensor], {next.offset, next.rank}, part);
            }
        } else {
            ++counters_.by_section;
        }
        arena_.resize(end);
        if (verdict != Verdict::kFits) state_.undo_to(placed);
        return verdict;
    }

    // Returns true if the unplaced tensors of a part no longer connect where the placed tensor lay.
    bool splits(std::int32_t placed, const Part& part) const {
        if (!question_->rules.split) return false;
        for (std::int32_t s = std::max(state_.first[placed], part.first + 1);
             s <= std::min(state_.last[placed], part.last - 1); ++s) {
            if (state_.crossing[s] == 0) return true;
        }
        return false;
    }

    // Splits a part without one tensor into its parts, and explores them.
    Verdict explore_rest(std::int32_t placed, std::size_t begin, std::size_t end) {
        std::vector<std::int32_t> rest;
        const std::vector<std::int32_t> ranked(arena_.begin() + static_cast<std::ptrdiff_t>(begin),
                                               arena_.begin() + static_cast<std::ptrdiff_t>(end));
        for (const std::int32_t t : ranked) {
            if (t != placed) rest.push_back(t);
        }
        std::sort(rest.begin(), rest.end(), [&](std::int32_t a, std::int32_t b) {
            return place_by_first_[a] < place_by_first_[b];
        });
        std::vector<std::int32_t> ranks;
        for (const std::int32_t t : ranked) ranks.push_back(bounds_.rank[t]);
        const Verdict verdict = explore_parts(rest);
        for (std::size_t i = 0; i < ranked.size(); ++i) bounds_.rank[ranked[i]] = ranks[i];
        return verdict;
    }

    void look_at_the_clock(std::int64_t work) {
        work_ += work;
        if (work_ < kWorkPerCheck) return;
        work_ = 0;
        stop_->check();
    }

    // Appends the tensors that may be next, in the order in which they are tried.
    void collect_candidates(Tensors tensors, Position position) {
        const CanonicalRules& rules = question_->rules;
        const auto first = static_cast<std::ptrdiff_t>(candidates_.size());
        for (const std::int32_t t : tensors) {
            if (rules.identical && group_[t] >= 0) {
                // Only the tensor of the lowest rank among identical ones is a candidate.
                if (seen_[group_[t]] == counters_.nodes) {
                    ++counters_.identical;
                    continue;
                }
                seen_[group_[t]] = counters_.nodes;
            }
            if (bounds_.bound[t] != state_.low[t] || bounds_.passed_over(t, position)) continue;
            if (rules.dominance && state_.low[t] >= bounds_.least_end_of_all()) {
                ++counters_.dominated;
                continue;
            }
            candidates_.push_back({state_.low[t], bounds_.rank[t], t});
        }
        std::sort(candidates_.begin() + first, candidates_.end());
        wander(candidates_.begin() + first, candidates_.end());
    }

    template <class Iterator>
    void wander(Iterator first, Iterator last) {
        // Candidates after the first among which a random one is drawn. A guess.
        constexpr std::ptrdiff_t kFarthest = 3;
        if (question_->wander == 0 || last - first < 2) return;
        if (static_cast<std::int32_t>(random_() % 1000) >= question_->wander) return;
        const auto choices = std::min(last - first - 1, kFarthest);
        const auto chosen = first + 1 + static_cast<std::ptrdiff_t>(random_() % choices);
        std::rotate(first, chosen, chosen + 1);
    }

    const std::vector<std::int32_t>& group_;
    const std::int32_t count_;
    CanonicalState<Bytes> state_;
    CanonicalBounds<Bytes> bounds_;
    // The tensors sorted by sections and size, the place of each in that order, and a hash for
    // each.
    std::vector<std::int32_t> by_first_, place_by_first_;
    std::vector<std::uint64_t> hash_;

    const CanonicalQuestion* question_ = nullptr;
    Stop* stop_ = nullptr;
    std::int64_t work_ = 0;
    std::uint64_t parts_ = 0;
    SearchCounters counters_;
    std::mt19937 random_;

    // Stacks over the nodes of the current path: tensors in the order of rank, bounds to return to,
    // and candidates.
    std::vector<std::int32_t> arena_;
    std::vector<Bytes> kept_bounds_;
    std::vector<Candidate> candidates_;
    RefutedStates<Bytes> states_;
    // The lows of the current node, and the node that last saw each group of identical tensors.
    std::vector<Bytes> lows_;
    std::vector<std::int64_t> seen_;
};

CanonicalSearch::CanonicalSearch(SearchProblem problem, Stop& stop)
    : problem_(std::move(problem)),
      neighbours_(neighbours_of(require_single(problem_), stop)),
      group_(identical_groups(problem_)) {}

CanonicalSearch::~CanonicalSearch() = default;

Decision CanonicalSearch::decide(const CanonicalQuestion& question, Stop& stop) {
    // A vector register holds twice as many 32-bit numbers, and sizes in common units often fit.
    std::int64_t largest = question.capacity;
    for (const std::int64_t m : problem_.modulus) largest = std::max(largest, m);
    for (const std::int64_t p : problem_.pinned) largest = std::max(largest, p);
    std::int64_t total = 0;
    for (const std::int64_t s : problem_.size) total += s;
    if (std::max(largest, total) < kNarrow) {
        if (!narrow_) {
            narrow_ = std::make_unique<Engine<std::int32_t>>(problem_, neighbours_, group_);
        }
        return narrow_->decide(question, stop);
    }
    if (!wide_) wide_ = std::make_unique<Engine<std::int64_t>>(problem_, neighbours_, group_);
    return wide_->decide(question, stop);
}

}  // namespace gapless
