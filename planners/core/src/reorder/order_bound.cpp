// Note [Forced bytes]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. In every order, some tensors are alive while a given node runs: the tensors that the
// node makes, and the tensors whose producer has a path to the node and that are read by the node
// or by one of its descendants. The sum of their bytes is a lower bound on the step of that node in
// every order. With several streams the sum is also a lower bound on every antichain, since each
// order of the streams has a global order, and the lifetime bound of that order does not exceed the
// antichain.
//
// Approach. The bound is computed for 64 nodes at a time. One sweep over the arcs finds, for every
// node, which of the 64 it has a path to. A second sweep finds which of the 64 have a path to it.
// Both answers are one word. The bits that a tensor's two words share are the nodes during which
// the tensor must be alive. The work is one pass over arcs and tensors for each 64 nodes; the
// memory is two words for each node.
//
// Limits. If one of two tensors must be alive, but either will do, the bound counts neither. So the
// bound is often below the best order. It costs almost nothing, and it proves an order that meets
// it.
#include <algorithm>
#include <array>
#include <bit>

#include "reorder/order_problem.h"

namespace gapless {

namespace {

// Nodes of one pass, a bit of a word each.
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
