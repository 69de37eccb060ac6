// Note [Safety by clocks]
// ~~~~~~~~~~~~~~~~~~~~~~~
// Tensor a is dead before tensor b is born when every user of a has a directed path to the
// producer of b. Nodes of one stream are a path, so the ancestors of a node in stream s are exactly
// the nodes of s up to some position: its clock. Hence a precedes b if and only if, for every
// stream s that uses a, (last position of a user of a in s) <= clock(producer of b)[s].
//
// For one stream s and a falling position p, the set R(s, p) = {b : clock(producer of b)[s] >= p}
// only grows. We keep it as one row of bits, which stays in the first-level cache, add the tensors
// whose clock equals p, and intersect it into the row of every tensor whose last user in s stands
// at p. After all streams, row a holds the tensors that a precedes. Work: one bit for each tensor
// and stream, one row operation for each (tensor, stream that uses it); no ancestor sets, nothing
// that depends on the number of arcs but the clocks themselves.
//
// A blocked transposition then makes the order symmetric and complements it.
#include <algorithm>
#include <vector>

#include "safety/clocks.h"
#include "safety/safety.h"

namespace gapless {

namespace {

// Indices grouped by a key in [0, keys), in compressed rows.
class Buckets {
  public:
    template <class Entries>
    void assign(std::int32_t keys, const Entries& entries) {
        offsets_.assign(static_cast<std::size_t>(keys) + 1, 0);
        for (const auto& [key, value] : entries) ++offsets_[key + 1];
        for (std::int32_t k = 0; k < keys; ++k) offsets_[k + 1] += offsets_[k];
        values_.resize(entries.size());
        cursor_.assign(offsets_.begin(), offsets_.end() - 1);
        for (const auto& [key, value] : entries) values_[cursor_[key]++] = value;
    }
    std::span<const std::int32_t> operator[](std::int32_t key) const {
        return {values_.data() + offsets_[key],
                static_cast<std::size_t>(offsets_[key + 1] - offsets_[key])};
    }

  private:
    std::vector<std::int32_t> offsets_, cursor_, values_;
};

using Entries = std::vector<std::pair<std::int32_t, std::int32_t>>;

}  // namespace

BitRows unsafe_by_clocks(const Graph& graph, Stop& stop) {
    const Clocks clocks(graph, stop);
    const std::int32_t tensors = graph.tensor_count();
    const std::int32_t streams = graph.stream_count();

    // The last position of each stream, and the tensors whose last user in the stream stands at
    // each position.
    std::vector<std::int32_t> length(streams, 0);
    for (std::int32_t v = 0; v < graph.node_count(); ++v) {
        length[graph.stream(v)] = std::max(length[graph.stream(v)], graph.position(v));
    }
    std::vector<Entries> last_used(streams);  // (position, tensor)
    for (std::int32_t t = 0; t < tensors; ++t) {
        for (const std::int32_t user : graph.last_users(t)) {
            last_used[graph.stream(user)].emplace_back(graph.position(user), t);
        }
    }

    BitRows relation(tensors, tensors);
    std::vector<bool> started(tensors, false);
    std::vector<std::uint64_t> later(relation.words());
    Buckets by_clock, by_last_use;
    Entries clock_of;
    for (std::int32_t s = 0; s < streams; ++s) {
        if (last_used[s].empty()) continue;
        clock_of.clear();
        for (std::int32_t t = 0; t < tensors; ++t) {
            const std::int32_t clock = clocks.at(graph.producer(t), s);
            if (clock > 0) clock_of.emplace_back(clock, t);
        }
        by_clock.assign(length[s] + 1, clock_of);
        by_last_use.assign(length[s] + 1, last_used[s]);
        std::fill(later.begin(), later.end(), 0);
        for (std::int32_t p = length[s]; p > 0; --p) {
            stop.poll();
            for (const std::int32_t b : by_clock[p]) later[b / kWordBits] |= BitRows::bit(b);
            for (const std::int32_t a : by_last_use[p]) {
                std::uint64_t* row = relation.row(a);
                if (!started[a]) {
                    std::copy(later.begin(), later.end(), row);
                    started[a] = true;
                } else {
                    for (std::size_t w = 0; w < later.size(); ++w) row[w] &= later[w];
                }
            }
        }
    }
    unsafe_from_safe(relation, stop);
    return relation;
}

}  // namespace gapless
