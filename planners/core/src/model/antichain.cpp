// Note [Heaviest antichain]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// "Dead before born" is a strict partial order on tensors, and a clique of the unsafe relation is
// an antichain of it. By Dilworth's theorem (1950) with weights, the heaviest antichain equals the
// smallest flow that sends at least size(a) through every tensor a, where flow may pass from a to b
// if and only if a precedes b.
//
// Network. Each node v of the graph is split into in(v) -> out(v). A tensor is an arc with lower
// bound size(a) from in(producer) to the vertex "a is dead": out(u) where one stream uses a and u
// is its last user there, otherwise a join vertex of its own. Flow goes on from out(u) to in(w) for
// every direct successor w of u (the next node of the stream included), and from a join to in(w)
// for every minimal node w that all its users precede. A path from "a is dead" to in(producer of b)
// then exists if and only if all users of a precede the producer of b. Every node lies within one
// of the streams, so "minimal" is checked on direct predecessors: w is minimal if none of them is
// preceded by all users. Tensors with the same producer and the same last users are one arc.
//
// Algorithm. A greedy pass in topological order hands flow from dead tensors to new ones: feasible,
// and close to the live bytes of the global order. A maximum flow from the sink to the source in
// the residual network (an arc can give back what it carries above its lower bound, and take any
// amount more) removes the rest (Dinic 1970). At the end let R be what the sink reaches. No
// residual arc leaves R, so arcs out of R do not exist, and arcs into R carry exactly their lower
// bound: the flow equals the bytes of the tensors that enter R. R is closed under successors, so a
// path enters it once and these tensors are an antichain. It is the certificate.
//
// Levels. An edge that takes more leads to the next level, and an edge that gives back stays within
// its level. So a path that gives back along a whole stream is short. If every edge led to the next
// level, there would be about as many rounds as the longest path has edges. Dinic's argument holds:
// edges within a level lead against the arcs and form no cycle; and a round adds only edges that
// give back, from a level to the one below, so that no path becomes shorter.
//
// Interrupts. The search checks for a stop only between augmenting paths. There the residual
// network holds a feasible flow, so the next call continues from that flow. If a stop ended the
// construction of the network, the next call builds the network anew.
#include "model/antichain.h"

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"
#include "safety/clocks.h"

namespace gapless {

namespace {

// Larger than every flow, since no flow exceeds the sum of all sizes. Twice this number still fits
// an int64.
constexpr std::int64_t kUnbounded = kMostBytes + 1;
// Limits the memory of the network to about 3 GiB (a guess). A join may have an arc to every
// stream, and no other check bounds the number of these arcs.
constexpr std::size_t kMostArcs = std::size_t{1} << 26;

struct Arc {
    std::int32_t from, to;
    std::int64_t lower;
    std::int64_t flow;
};

}  // namespace

// The network of the Note above, together with a feasible flow.
class AntichainSearch::Network {
  public:
    Network(const Graph& graph, const std::vector<std::int64_t>& size, Stop& stop)
        : graph_(graph),
          clocks_(graph, stop),
          vertices_(2 * graph.node_count()),
          nodes_of_stream_(graph.stream_count()) {
        add_node_arcs();
        add_tensor_arcs(size, stop);
        route_greedily();
    }

    std::int32_t vertices() const { return vertices_; }
    std::int32_t source() const { return vertices_; }
    std::int32_t sink() const { return vertices_ + 1; }
    const std::vector<Arc>& arcs() const { return arcs_; }
    std::int64_t value() const { return value_; }
    // The tensors that share this arc; empty for an arc that stands for no tensor.
    const std::vector<std::int32_t>& tensors(std::size_t arc) const {
        static const std::vector<std::int32_t> kNone;
        return arc < group_of_arc_.size() && group_of_arc_[arc] >= 0 ? groups_[group_of_arc_[arc]]
                                                                     : kNone;
    }

  private:
    static std::int32_t in(std::int32_t v) { return 2 * v; }
    static std::int32_t out(std::int32_t v) { return 2 * v + 1; }

    void add(std::int32_t from, std::int32_t to, std::int64_t lower = 0, std::int32_t group = -1) {
        if (arcs_.size() == kMostArcs) {
            throw std::length_error("heaviest antichain: its network would have more than " +
                                    std::to_string(kMostArcs) + " arcs");
        }
        arcs_.push_back({from, to, lower, 0});
        group_of_arc_.push_back(group);
    }

    void add_node_arcs() {
        for (std::int32_t v = 0; v < graph_.node_count(); ++v) {
            nodes_of_stream_[graph_.stream(v)].push_back(v);
            add(in(v), out(v));
            for (const std::int32_t u : graph_.predecessors(v)) add(out(u), in(v));
        }
    }

    void add_tensor_arcs(const std::vector<std::int64_t>& size, Stop& stop) {
        std::map<std::pair<std::int32_t, std::vector<std::int32_t>>, std::int32_t> group_of;
        for (std::int32_t t = 0; t < graph_.tensor_count(); ++t) {
            if (size[t] == 0) continue;
            const auto last = graph_.last_users(t);
            const auto [at, is_new] =
                group_of.try_emplace({graph_.producer(t), {last.begin(), last.end()}},
                                     static_cast<std::int32_t>(groups_.size()));
            if (is_new) groups_.emplace_back();
            groups_[at->second].push_back(t);
        }
        std::map<std::vector<std::int32_t>, std::int32_t> join_of;
        for (const auto& [key, group] : group_of) {
            const auto& [producer, last] = key;
            std::int64_t bytes = 0;
            for (const std::int32_t t : groups_[group]) bytes += size[t];
            add(in(producer), dead_vertex(last, join_of, stop), bytes, group);
        }
    }

    std::int32_t dead_vertex(const std::vector<std::int32_t>& last,
                             std::map<std::vector<std::int32_t>, std::int32_t>& join_of,
                             Stop& stop) {
        if (last.size() == 1) return out(last[0]);
        const auto [at, is_new] = join_of.try_emplace(last, vertices_);
        if (is_new) {
            const std::int32_t join = vertices_++;
            join_order_.push_back(*std::max_element(last.begin(), last.end()));
            for (const std::vector<std::int32_t>& nodes : nodes_of_stream_) {
                stop.poll();
                // The nodes of a stream that wait for all users form a suffix of that stream.
                const auto first = std::partition_point(
                    nodes.begin(), nodes.end(),
                    [&](std::int32_t node) { return !all_precede(last, node); });
                if (first == nodes.end()) continue;
                const auto before = graph_.predecessors(*first);
                const bool minimal =
                    std::none_of(before.begin(), before.end(),
                                 [&](std::int32_t p) { return all_precede(last, p); });
                if (minimal) add(join, in(*first));
            }
        }
        return at->second;
    }

    bool all_precede(const std::vector<std::int32_t>& last, std::int32_t node) const {
        return std::all_of(last.begin(), last.end(),
                           [&](std::int32_t user) { return clocks_.precedes(graph_, user, node); });
    }

    // Makes the flow feasible: the flow that reaches a vertex first serves the tensors that start
    // there, and the source adds what they lack.
    void route_greedily() {
        std::vector<std::vector<std::int32_t>> leaving(vertices_);
        for (std::size_t a = 0; a < arcs_.size(); ++a) {
            leaving[arcs_[a].from].push_back(static_cast<std::int32_t>(a));
        }
        std::vector<std::int64_t> waiting(vertices_, 0);
        const auto send = [&](std::int32_t vertex) {
            std::int64_t here = waiting[vertex];
            std::int64_t needed = 0;
            std::int32_t onward = -1;
            for (const std::int32_t a : leaving[vertex]) {
                needed += arcs_[a].lower;
                arcs_[a].flow = arcs_[a].lower;
                if (arcs_[a].lower == 0 && (onward < 0 || arcs_[a].to < arcs_[onward].to)) {
                    onward = a;
                }
            }
            from_source_.push_back({source(), vertex, 0, std::max<std::int64_t>(0, needed - here)});
            const std::int64_t rest = std::max<std::int64_t>(0, here - needed);
            if (onward >= 0) arcs_[onward].flow += rest;
            to_sink_.push_back({vertex, sink(), 0, onward >= 0 ? 0 : rest});
            for (const std::int32_t a : leaving[vertex]) waiting[arcs_[a].to] += arcs_[a].flow;
        };
        for (const std::int32_t vertex : topological_order()) send(vertex);
        for (const Arc& arc : from_source_) value_ += arc.flow;
        arcs_.insert(arcs_.end(), from_source_.begin(), from_source_.end());
        arcs_.insert(arcs_.end(), to_sink_.begin(), to_sink_.end());
    }

    // Vertices in topological order: in(v), then out(v), by rising v; a join follows out() of the
    // last of its users.
    std::vector<std::int32_t> topological_order() const {
        std::vector<std::pair<std::int64_t, std::int32_t>> keyed;
        for (std::int32_t v = 0; v < graph_.node_count(); ++v) {
            keyed.emplace_back(std::int64_t{3} * v, in(v));
            keyed.emplace_back(std::int64_t{3} * v + 1, out(v));
        }
        for (std::size_t j = 0; j < join_order_.size(); ++j) {
            keyed.emplace_back(std::int64_t{3} * join_order_[j] + 2,
                               2 * graph_.node_count() + static_cast<std::int32_t>(j));
        }
        std::sort(keyed.begin(), keyed.end());
        std::vector<std::int32_t> order;
        for (const auto& [key, vertex] : keyed) order.push_back(vertex);
        return order;
    }

    const Graph& graph_;
    Clocks clocks_;
    std::int32_t vertices_;
    std::vector<std::vector<std::int32_t>> nodes_of_stream_;
    std::vector<Arc> arcs_, from_source_, to_sink_;
    std::vector<std::int32_t> group_of_arc_, join_order_;
    std::vector<std::vector<std::int32_t>> groups_;
    std::int64_t value_ = 0;
};

// Maximum flow in the residual network, from the sink of the network to its source.
class AntichainSearch::Reduction {
  public:
    explicit Reduction(const Network& network)
        : source_(network.sink()),
          target_(network.source()),
          first_(network.vertices() + 3, 0),
          level_(network.vertices() + 2),
          next_(network.vertices() + 2) {
        for (const Arc& arc : network.arcs()) {
            ++first_[arc.from + 1];
            ++first_[arc.to + 1];
        }
        for (std::size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
        edges_.resize(2 * network.arcs().size());
        std::vector<std::int32_t> fill(first_.begin(), first_.end() - 1);
        for (const Arc& arc : network.arcs()) {
            const std::int32_t forward = fill[arc.from]++;
            const std::int32_t backward = fill[arc.to]++;
            edges_[forward] = {arc.to, backward, kUnbounded};
            edges_[backward] = {arc.from, forward, arc.flow - arc.lower};
        }
    }

    // Returns the total flow of all calls so far, including calls that `stop` ended.
    std::int64_t run(Stop& stop) {
        while (levels()) {
            std::copy(first_.begin(), first_.end() - 1, next_.begin());
            block_flow(stop);
        }
        return total_;
    }

    // Valid after run(): returns true if the sink of the network still reaches the vertex.
    bool reached(std::int32_t vertex) const { return level_[vertex] >= 0; }

  private:
    struct Edge {
        std::int32_t to;
        std::int32_t twin;
        std::int64_t residual;
    };

    // Returns the levels that an edge rises; see Levels in the Note.
    static std::int32_t rise(const Edge& edge) { return edge.residual < kUnbounded ? 0 : 1; }

    bool levels() {
        std::fill(level_.begin(), level_.end(), -1);
        above_.assign(1, source_);
        for (std::int32_t level = 0; !above_.empty(); ++level) {
            queue_.swap(above_);
            above_.clear();
            for (std::size_t head = 0; head < queue_.size(); ++head) {
                const std::int32_t v = queue_[head];
                if (level_[v] >= 0) continue;
                level_[v] = level;
                for (std::int32_t e = first_[v]; e < first_[v + 1]; ++e) {
                    if (edges_[e].residual <= 0 || level_[edges_[e].to] >= 0) continue;
                    (rise(edges_[e]) == 0 ? queue_ : above_).push_back(edges_[e].to);
                }
            }
        }
        return level_[target_] >= 0;
    }

    // Depth-first search along the levels. The path is explicit because a recursion could be as
    // deep as the graph is long.
    void block_flow(Stop& stop) {
        std::vector<std::int32_t> path;
        std::int32_t v = source_;
        while (true) {
            stop.poll();
            if (v == target_) {
                total_ += augment(path);
                // Return to the tail of the first edge that this augmentation filled.
                std::size_t keep = 0;
                while (edges_[path[keep]].residual > 0) ++keep;
                v = edges_[edges_[path[keep]].twin].to;
                path.resize(keep);
                continue;
            }
            std::int32_t& e = next_[v];
            while (e < first_[v + 1] && (edges_[e].residual <= 0 ||
                                         level_[edges_[e].to] != level_[v] + rise(edges_[e]))) {
                ++e;
            }
            if (e < first_[v + 1]) {
                path.push_back(e);
                v = edges_[e].to;
            } else if (path.empty()) {
                return;
            } else {
                v = edges_[edges_[path.back()].twin].to;
                path.pop_back();
                ++next_[v];
            }
        }
    }

    std::int64_t augment(const std::vector<std::int32_t>& path) {
        std::int64_t amount = kUnbounded;
        for (const std::int32_t e : path) amount = std::min(amount, edges_[e].residual);
        for (const std::int32_t e : path) {
            // The residual of an unbounded arc is never reduced, so that no sum of amounts can
            // exhaust it.
            if (edges_[e].residual < kUnbounded) edges_[e].residual -= amount;
            Edge& twin = edges_[edges_[e].twin];
            if (twin.residual < kUnbounded) twin.residual += amount;
        }
        return amount;
    }

    std::int32_t source_, target_;
    std::vector<std::int32_t> first_;
    std::vector<std::int32_t> level_, next_;
    // Vertices of this level and of the next, some more than once.
    std::vector<std::int32_t> queue_, above_;
    std::vector<Edge> edges_;
    std::int64_t total_ = 0;
};

AntichainSearch::AntichainSearch(std::shared_ptr<const Graph> graph, std::vector<std::int64_t> size)
    : graph_(std::move(graph)), size_(std::move(size)) {
    require_length("size", size_.size(), "tensor",
                   static_cast<std::size_t>(graph_->tensor_count()));
    require_total("size", size_);
}

AntichainSearch::~AntichainSearch() = default;

const Antichain& AntichainSearch::run(Stop& stop) {
    if (found_) return *found_;
    if (!network_) network_ = std::make_unique<const Network>(*graph_, size_, stop);
    if (!reduction_) reduction_ = std::make_unique<Reduction>(*network_);
    const std::int64_t spared = reduction_->run(stop);
    found_ = cut();
    found_->bytes = network_->value() - spared;
    reduction_.reset();
    network_.reset();
    return *found_;
}

// Returns the tensors whose arcs enter the set of vertices that the sink reaches.
Antichain AntichainSearch::cut() const {
    Antichain antichain;
    for (std::size_t a = 0; a < network_->arcs().size(); ++a) {
        const Arc& arc = network_->arcs()[a];
        if (arc.lower == 0 || reduction_->reached(arc.from) || !reduction_->reached(arc.to)) {
            continue;
        }
        const auto& tensors = network_->tensors(a);
        antichain.tensors.insert(antichain.tensors.end(), tensors.begin(), tensors.end());
    }
    std::sort(antichain.tensors.begin(), antichain.tensors.end());
    return antichain;
}

}  // namespace gapless
