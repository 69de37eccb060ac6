// Note [Forced bytes]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. Some tensors are alive while a node runs in whatever order: those that it makes, and
// those whose producer has a path to it and of which a reader is the node or has a path from it.
// Their bytes together are below the step of that node in every order, and with several streams
// below every antichain as well, since each order of the streams has a global order, whose lifetime
// bound is no larger than the antichain.
//
// Approach. 64 nodes at a time: one sweep over the arcs says of every node which of them it has a
// path to, another which of them have a path to it. For each tensor both are one word, and what
// stands in both is where it is forced. That is the arcs and tensors once for each 64 nodes, and
// memory for two words a node.
//
// Limits. Two tensors of which one or the other has to be alive, but neither must, count for
// nothing; so the bound is often below the best order. It is as good as free, and where it is met,
// the order is proven.
#include <algorithm>
#include <array>
#include <bit>

#include "reorder/order_problem.h"

namespace gapless {

namespace {

constexpr std::int32_t kNodesAtOnce = 64;

}  // namespace

std::int64_t OrderProblem::forced_bytes(Stop& stop) const {
    const std::int32_t nodes = node_count();
    std::int64_t largest = 0;
    std::vector<std::uint64_t> leads_to(made_.size());
    std::vector<std::uint64_t> comes_from(made_.size());
    for (std::int32_t first = 0; first < nodes; first += kNodesAtOnce) {
        stop.check();
        const std::int32_t end = std::min(nodes, first + kNodesAtOnce);
        const auto own_bit = [&](std::int32_t v) {
            return first <= v && v < end ? std::uint64_t{1} << (v - first) : std::uint64_t{0};
        };
        for (std::int32_t v = nodes; v-- > 0;) {
            leads_to[v] = own_bit(v);
            for (const std::int32_t w : successors(v)) leads_to[v] |= leads_to[w];
        }
        for (std::int32_t v = 0; v < nodes; ++v) {
            comes_from[v] = own_bit(v);
            for (const std::int32_t u : predecessors(v)) comes_from[v] |= comes_from[u];
        }
        std::array<std::int64_t, kNodesAtOnce> forced{};
        for (std::int32_t v = first; v < end; ++v) forced[v - first] = made_[v];
        for (std::int32_t t = 0; t < tensor_count(); ++t) {
            std::uint64_t read_later = 0;
            for (const std::int32_t reader : readers(t)) read_later |= comes_from[reader];
            std::uint64_t both = leads_to[producer_[t]] & ~own_bit(producer_[t]) & read_later;
            for (; both != 0; both &= both - 1) forced[std::countr_zero(both)] += size_[t];
        }
        largest = std::max(largest, *std::max_element(forced.begin(), forced.end()));
    }
    return largest;
}

}  // namespace gapless
