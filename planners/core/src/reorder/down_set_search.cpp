#include "reorder/down_set_search.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <queue>
#include <span>
#include <utility>

namespace gapless {

namespace {

// Limits the table of sets to 256 MiB. A guess.
constexpr std::size_t kMostBytesOfSets = std::size_t{1} << 28;
constexpr std::int32_t kNone = -1;

struct Waiting {
    std::int64_t largest_step;
    std::int32_t ran;
    std::int32_t state;

    // std::priority_queue pops the largest. The largest has the smaller largest step, then more
    // nodes, then the older state.
    bool operator<(const Waiting& other) const {
        if (largest_step != other.largest_step) return largest_step > other.largest_step;
        if (ran != other.ran) return ran < other.ran;
        return state > other.state;
    }
};

// The nodes that have run, the live bytes, and the nodes that may run next. The search can run a
// node and take it back.
class Progress {
  public:
    explicit Progress(const OrderProblem& problem) : problem_(problem) {
        const std::int32_t nodes = problem.node_count();
        ran_.assign((static_cast<std::size_t>(nodes) + 63) / 64, 0);
        blocked_.resize(nodes);
        place_.assign(nodes, kNone);
        for (std::int32_t v = 0; v < nodes; ++v) {
            blocked_[v] = static_cast<std::int32_t>(problem.predecessors(v).size());
            if (blocked_[v] == 0) add_ready(v);
        }
        growth_.resize(nodes);
        for (std::int32_t v = 0; v < nodes; ++v) growth_[v] = problem.kept(v);
        unread_.resize(problem.tensor_count());
        unread_by_.resize(problem.tensor_count());
        for (std::int32_t t = 0; t < problem.tensor_count(); ++t) {
            const auto readers = problem.readers(t);
            unread_[t] = static_cast<std::int32_t>(readers.size());
            unread_by_[t] = std::accumulate(readers.begin(), readers.end(), std::int64_t{0});
            if (unread_[t] == 1) growth_[readers[0]] -= problem.size(t);
        }
    }

    const std::vector<std::uint64_t>& ran() const { return ran_; }
    const std::vector<std::int32_t>& sequence() const { return sequence_; }
    const std::vector<std::int32_t>& ready() const { return ready_; }
    std::int64_t step(std::int32_t v) const { return alive_ + problem_.made(v); }
    void run(std::int32_t v) {
        alive_ += growth_[v];
        for (const std::int32_t t : problem_.reads(v)) {
            unread_by_[t] -= v;
            // The only reader that is left will free the tensor.
            if (--unread_[t] == 1) growth_[unread_by_[t]] -= problem_.size(t);
        }
        remove_ready(v);
        for (const std::int32_t w : problem_.successors(v)) {
            if (--blocked_[w] == 0) add_ready(w);
        }
        ran_[v / 64] |= std::uint64_t{1} << (v % 64);
        sequence_.push_back(v);
    }

    void take_back() {
        const std::int32_t v = sequence_.back();
        sequence_.pop_back();
        ran_[v / 64] &= ~(std::uint64_t{1} << (v % 64));
        for (const std::int32_t w : problem_.successors(v)) {
            if (blocked_[w]++ == 0) remove_ready(w);
        }
        add_ready(v);
        for (const std::int32_t t : problem_.reads(v)) {
            if (unread_[t]++ == 1) growth_[unread_by_[t]] += problem_.size(t);
            unread_by_[t] += v;
        }
        alive_ -= growth_[v];
    }

    // Runs every node that the first rule of the Note runs without an alternative.
    void run_what_is_free(std::int64_t largest_step) {
        for (bool changed = true; changed;) {
            changed = false;
            for (std::size_t r = 0; r < ready_.size();) {
                const std::int32_t v = ready_[r];
                if (step(v) > largest_step || growth_[v] > 0) {
                    ++r;
                    continue;
                }
                run(v);  // the swap puts another node at position r
                changed = true;
            }
        }
    }

    std::int64_t least_step() const {
        std::int64_t made = 0;
        for (std::size_t r = 0; r < ready_.size(); ++r) {
            made = r == 0 ? problem_.made(ready_[r]) : std::min(made, problem_.made(ready_[r]));
        }
        return alive_ + made;
    }

  private:
    void add_ready(std::int32_t v) {
        place_[v] = static_cast<std::int32_t>(ready_.size());
        ready_.push_back(v);
    }
    void remove_ready(std::int32_t v) {
        ready_[place_[v]] = ready_.back();
        place_[ready_.back()] = place_[v];
        ready_.pop_back();
        place_[v] = kNone;
    }

    const OrderProblem& problem_;
    std::int64_t alive_ = 0;
    std::vector<std::uint64_t> ran_;
    std::vector<std::int32_t> sequence_, ready_, place_, blocked_;
    // By node: the growth of live bytes when the node runs. By tensor: the number of unread
    // readers, and the sum of their node numbers. If one reader is left, this sum is the number of
    // that reader.
    std::vector<std::int64_t> growth_, unread_by_;
    std::vector<std::int32_t> unread_;
};

}  // namespace

// Hash table of all sets of nodes that were reached, each with its largest step and the way to it.
class DownSetSearch::Table {
  public:
    explicit Table(std::size_t words) : words_(words), slots_(1024, kNone) {}

    std::size_t bytes() const {
        return (bits_.size() * 8) + (state_.size() * sizeof(State)) + (slots_.size() * 4) +
               (way_.size() * 4);
    }
    std::int64_t largest_step(std::int32_t state) const { return state_[state].largest_step; }

    // Returns the state of a set, and true if the search should continue from the set with this
    // largest step: the set is new, or was reached before only with a larger step.
    std::pair<std::int32_t, bool> reach(const std::uint64_t* bits, std::int64_t largest_step,
                                        std::int32_t parent, std::span<const std::int32_t> added) {
        std::size_t slot = hash(bits) & (slots_.size() - 1);
        for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
            const std::int32_t known = slots_[slot];
            if (std::memcmp(&bits_[words_ * known], bits, words_ * 8) != 0) continue;
            if (state_[known].largest_step <= largest_step) return {known, false};
            describe(known, largest_step, parent, added);
            return {known, true};
        }
        const auto made = static_cast<std::int32_t>(state_.size());
        slots_[slot] = made;
        bits_.insert(bits_.end(), bits, bits + words_);
        state_.emplace_back();
        describe(made, largest_step, parent, added);
        if (state_.size() * 2 > slots_.size()) grow();
        return {made, true};
    }

    std::vector<std::int32_t> order(std::int32_t state) const {
        std::vector<std::int32_t> backwards;
        for (; state != kNone; state = state_[state].parent) {
            const State& at = state_[state];
            for (std::int32_t w = at.length; w-- > 0;) backwards.push_back(way_[at.way + w]);
        }
        std::reverse(backwards.begin(), backwards.end());
        return backwards;
    }

  private:
    struct State {
        std::int64_t largest_step;
        // Index in `way_` of the nodes that lead from the parent to this state.
        std::size_t way;
        std::int32_t length, parent;
    };

    void describe(std::int32_t state, std::int64_t largest_step, std::int32_t parent,
                  std::span<const std::int32_t> added) {
        state_[state] = {largest_step, way_.size(), static_cast<std::int32_t>(added.size()),
                         parent};
        way_.insert(way_.end(), added.begin(), added.end());
    }

    std::size_t hash(const std::uint64_t* bits) const {
        std::uint64_t mixed = 0x9e3779b97f4a7c15;
        for (std::size_t w = 0; w < words_; ++w) {
            mixed = (mixed ^ bits[w]) * 0xbf58476d1ce4e5b9;
            mixed ^= mixed >> 29;
        }
        return static_cast<std::size_t>(mixed);
    }

    void grow() {
        slots_.assign(slots_.size() * 2, kNone);
        for (std::size_t s = 0; s < state_.size(); ++s) {
            std::size_t slot = hash(&bits_[words_ * s]) & (slots_.size() - 1);
            while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
            slots_[slot] = static_cast<std::int32_t>(s);
        }
    }

    std::size_t words_;
    std::vector<std::uint64_t> bits_;
    std::vector<State> state_;
    std::vector<std::int32_t> slots_, way_;
};

DownSetSearch::DownSetSearch(std::shared_ptr<const OrderProblem> problem)
    : problem_(std::move(problem)) {}
DownSetSearch::~DownSetSearch() = default;

OrderVerdict DownSetSearch::run(std::int64_t floor, std::int64_t limit, std::int64_t states,
                                Stop& stop) {
    Progress progress(*problem_);
    Table table(progress.ran().size());
    std::priority_queue<Waiting> waiting;

    const auto reach = [&](std::int64_t largest_step, std::int32_t parent, std::size_t before) {
        progress.run_what_is_free(largest_step);
        largest_step = std::max(largest_step, progress.least_step());
        if (largest_step >= limit) return;
        const auto& sequence = progress.sequence();
        const auto [state, is_worth] =
            table.reach(progress.ran().data(), largest_step, parent,
                        {sequence.data() + before, sequence.size() - before});
        if (is_worth) {
            waiting.push({largest_step, static_cast<std::int32_t>(sequence.size()), state});
        }
    };
    // Moves `progress` from its current set to another one: takes nodes back to the common prefix
    // of both ways, then runs the rest.
    const auto go_to = [&](const std::vector<std::int32_t>& way) {
        const auto& sequence = progress.sequence();
        const auto same = std::mismatch(sequence.begin(), sequence.end(), way.begin(), way.end());
        const auto common = static_cast<std::size_t>(same.second - way.begin());
        while (sequence.size() > common) progress.take_back();
        for (std::size_t w = common; w < way.size(); ++w) progress.run(way[w]);
    };

    bound_ = std::max(bound_, floor);
    reach(bound_, kNone, 0);
    while (!waiting.empty()) {
        const Waiting next = waiting.top();
        waiting.pop();
        // A smaller largest step was found since.
        if (table.largest_step(next.state) < next.largest_step) continue;
        bound_ = std::max(bound_, next.largest_step);
        const std::vector<std::int32_t> way = table.order(next.state);
        if (next.ran == problem_->node_count()) {
            order_ = way;
            return OrderVerdict::kFound;
        }
        stop.check();
        if (taken_ >= states || table.bytes() > kMostBytesOfSets) return OrderVerdict::kStateLimit;
        ++taken_;
        go_to(way);
        const std::vector<std::int32_t> ready = progress.ready();
        for (const std::int32_t v : ready) {
            const std::int64_t largest_step = std::max(next.largest_step, progress.step(v));
            if (largest_step >= limit) continue;
            progress.run(v);
            reach(largest_step, next.state, way.size());
            while (progress.sequence().size() > way.size()) progress.take_back();
        }
    }
    bound_ = std::max(bound_, limit);
    return OrderVerdict::kRefuted;
}

}  // namespace gapless
