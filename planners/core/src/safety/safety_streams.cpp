// Algorithms 2, 3, 4 and 5 of the paper: safety is decided for each pair of streams.
#include <vector>

#include "safety/clocks.h"
#include "safety/safety.h"

namespace gapless {

namespace {

class StreamGraphSafety {
  public:
    StreamGraphSafety(const Graph& graph, Stop& stop)
        : graph_(graph),
          stop_(stop),
          max_ancestor_(graph, stop),
          ancestor_streams_(graph.stream_count(), graph.stream_count()),
          made_in_(graph.stream_count()),
          between_(graph.tensor_count()),
          relation_(graph.tensor_count(), graph.tensor_count()) {
        for (std::int32_t v = 0; v < graph.node_count(); ++v) {
            for (std::int32_t s = 0; s < graph.stream_count(); ++s) {
                if (s != graph.stream(v) && max_ancestor_.at(v, s) > 0) {
                    ancestor_streams_.set(graph.stream(v), s);
                }
            }
        }
        for (std::int32_t t = 0; t < graph.tensor_count(); ++t) {
            made_in_[source(t)].push_back(t);
            const auto last = graph.last_users(t);
            between_[t] = last.size() > 1 || graph.stream(last[0]) != source(t);
        }
    }

    // Algorithm 2.
    BitRows solve() {
        ancestor_streams_reuse();
        same_stream_reuse();
        unsafe_from_safe(relation_, stop_);
        return std::move(relation_);
    }

  private:
    std::int32_t source(std::int32_t t) const { return graph_.stream(graph_.producer(t)); }
    std::int32_t start_time(std::int32_t t) const { return graph_.position(graph_.producer(t)); }
    // EndTime[t] of a tensor that only its own stream uses.
    std::int32_t end_time(std::int32_t t) const { return graph_.position(graph_.last_users(t)[0]); }
    std::int32_t max_ancestor(std::int32_t t, std::int32_t s) const {
        return max_ancestor_.at(graph_.producer(t), s);
    }
    // Marks a safe pair in one row only. unsafe_from_safe makes the relation symmetric at the end.
    void declare_safe(std::int32_t row, std::int32_t other) { relation_.set(row, other); }

    // Algorithm 3.
    void ancestor_streams_reuse() {
        for (std::int32_t s1 = 0; s1 < graph_.stream_count(); ++s1) {
            for (std::int32_t s2 = 0; s2 < graph_.stream_count(); ++s2) {
                if (!ancestor_streams_.test(s1, s2)) continue;
                for (const std::int32_t t2 : made_in_[s2]) {
                    stop_.poll();
                    if (!between_[t2]) {
                        const std::int32_t end = end_time(t2);
                        for (const std::int32_t t1 : made_in_[s1]) {
                            if (end <= max_ancestor(t1, s2)) declare_safe(t2, t1);
                        }
                    } else {
                        for (const std::int32_t t1 : made_in_[s1]) {
                            if (valid_ancestor(t2, t1)) declare_safe(t2, t1);
                        }
                    }
                }
            }
        }
    }

    // Algorithm 4: every consumer of t2 precedes the producer of t1.
    bool valid_ancestor(std::int32_t t2, std::int32_t t1) const {
        const std::int32_t s1 = source(t1);
        for (const std::int32_t last : graph_.last_users(t2)) {
            const std::int32_t s = graph_.stream(last);
            if (s == s1) {
                if (graph_.position(last) >= start_time(t1)) return false;
            } else if (!ancestor_streams_.test(s1, s) ||
                       graph_.position(last) > max_ancestor(t1, s)) {
                return false;
            }
        }
        return true;
    }

    // Algorithm 5. It includes the branch for two tensors within one stream, which the paper's
    // prose has and its listing lacks.
    void same_stream_reuse() {
        for (std::int32_t s = 0; s < graph_.stream_count(); ++s) {
            const auto& made = made_in_[s];
            for (std::size_t i = 0; i < made.size(); ++i) {
                stop_.poll();
                for (std::size_t j = i + 1; j < made.size(); ++j) {
                    if (start_time(made[i]) == start_time(made[j])) continue;
                    if (same_stream_safe(made[i], made[j])) declare_safe(made[i], made[j]);
                }
            }
        }
    }

    bool same_stream_safe(std::int32_t t1, std::int32_t t2) const {
        if (between_[t1] && between_[t2]) {
            return valid_ancestor(t1, t2) || valid_ancestor(t2, t1);
        }
        if (between_[t1]) return one_between_safe(t1, t2);
        if (between_[t2]) return one_between_safe(t2, t1);
        return start_time(t1) > end_time(t2) || start_time(t2) > end_time(t1);
    }

    bool one_between_safe(std::int32_t between, std::int32_t within) const {
        return start_time(between) > end_time(within) ||
               (start_time(between) < start_time(within) && valid_ancestor(between, within));
    }

    const Graph& graph_;
    Stop& stop_;
    Clocks max_ancestor_;
    BitRows ancestor_streams_;
    std::vector<std::vector<std::int32_t>> made_in_;
    std::vector<char> between_;
    BitRows relation_;
};

}  // namespace

BitRows unsafe_by_streams(const Graph& graph, Stop& stop) {
    return StreamGraphSafety(graph, stop).solve();
}

}  // namespace gapless
