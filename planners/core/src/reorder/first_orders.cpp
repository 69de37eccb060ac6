#include "reorder/first_orders.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gapless {

namespace {

// Ready nodes sorted by the growth of live bytes that they cause; the smallest is taken first.
using Ready = std::set<std::pair<std::int64_t, std::int32_t>>;

}  // namespace

std::vector<std::int32_t> order_by_growth(const OrderProblem& problem, Stop& stop) {
    const std::int32_t nodes = problem.node_count();
    std::vector<std::int64_t> growth(nodes);
    std::vector<std::int32_t> blocked(nodes), unread(problem.tensor_count()), order;
    std::vector<std::uint8_t> ran(nodes, 0);
    Ready ready;
    for (std::int32_t t = 0; t < problem.tensor_count(); ++t) {
        unread[t] = static_cast<std::int32_t>(problem.readers(t).size());
    }
    for (std::int32_t v = 0; v < nodes; ++v) {
        growth[v] = problem.kept(v);
        for (const std::int32_t t : problem.reads(v)) {
            if (unread[t] == 1) growth[v] -= problem.size(t);
        }
        blocked[v] = static_cast<std::int32_t>(problem.predecessors(v).size());
        if (blocked[v] == 0) ready.emplace(growth[v], v);
    }
    while (!ready.empty()) {
        stop.poll();
        const std::int32_t v = ready.begin()->second;
        ready.erase(ready.begin());
        ran[v] = 1;
        order.push_back(v);
        for (const std::int32_t t : problem.reads(v)) {
            if (--unread[t] != 1) continue;
            // The only reader that is left will free the tensor.
            for (const std::int32_t reader : problem.readers(t)) {
                if (ran[reader]) continue;
                const bool is_ready = ready.erase({growth[reader], reader}) != 0;
                growth[reader] -= problem.size(t);
                if (is_ready) ready.emplace(growth[reader], reader);
            }
        }
        for (const std::int32_t w : problem.successors(v)) {
            if (--blocked[w] == 0) ready.emplace(growth[w], w);
        }
    }
    return order;
}

std::vector<std::int32_t> order_by_growth_from_end(const OrderProblem& problem, Stop& stop) {
    const std::int32_t nodes = problem.node_count();
    // Seen from the end, the first reader of a tensor makes the tensor alive.
    std::vector<std::int64_t> growth(nodes);
    std::vector<std::int32_t> blocked(nodes), backwards;
    std::vector<std::uint8_t> alive(problem.tensor_count(), 0);
    Ready ready;
    for (std::int32_t v = 0; v < nodes; ++v) {
        growth[v] = -problem.kept(v);
        for (const std::int32_t t : problem.reads(v)) growth[v] += problem.size(t);
        blocked[v] = static_cast<std::int32_t>(problem.successors(v).size());
        if (blocked[v] == 0) ready.emplace(growth[v], -v);
    }
    while (!ready.empty()) {
        stop.poll();
        const std::int32_t v = -ready.begin()->second;
        ready.erase(ready.begin());
        backwards.push_back(v);
        for (const std::int32_t t : problem.reads(v)) {
            if (std::exchange(alive[t], 1)) continue;
            for (const std::int32_t reader : problem.readers(t)) {
                if (reader == v) continue;
                const bool is_ready = ready.erase({growth[reader], -reader}) != 0;
                growth[reader] -= problem.size(t);
                if (is_ready) ready.emplace(growth[reader], -reader);
            }
        }
        for (const std::int32_t u : problem.predecessors(v)) {
            if (--blocked[u] == 0) ready.emplace(growth[u], -u);
        }
    }
    std::reverse(backwards.begin(), backwards.end());
    return backwards;
}

}  // namespace gapless
