// A segment tree that tells which bytes are occupied during a range of sections.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "greedy/intervals.h"
#include "model/sections.h"

namespace gapless {

// Note [Address tree]
// ~~~~~~~~~~~~~~~~~~~
// A segment tree over S sections. A placed tensor is cut into the O(log S) nodes whose ranges
// make up its own range. Each node holds `own`, the bytes of the tensors that were cut into it, and
// `below`, the bytes of all tensors that were cut into it or into a node under it. The bytes
// occupied at some section of a query range are then the union of `own` over the proper ancestors
// of the range's nodes, and of `below` over these nodes. These are O(log S) unions of intervals,
// which a search walks in parallel. Tensors that touch are merged, so the length of a union grows
// with fragmentation, not with the number of tensors. This keeps a million placements near-linear.
//
// Memory: the left child of a node is the next node, and the right child follows the left subtree.
// So the tree takes 2 S - 1 nodes and not the next power of two, and a path down stays close in
// memory. A leaf needs no `own`. Every other node is identified by the first section of its right
// child, so `own` is indexed by that section.
class AddressTree {
  public:
    explicit AddressTree(std::int32_t sections)
        : sections_(std::max(sections, 1)),
          own_(static_cast<std::size_t>(sections_)),
          below_(2 * static_cast<std::size_t>(sections_) - 1) {}

    void insert(SectionRange range, Interval interval) { insert(0, 0, sections_, range, interval); }

    // Calls visit_intervals() for non-empty unions that together cover the bytes occupied in the
    // range.
    template <class Visit>
    void visit(SectionRange range, Visit&& visit_intervals) const {
        visit(0, 0, sections_, range, visit_intervals);
    }

  private:
    void insert(std::size_t node, std::int32_t first, std::int32_t last, SectionRange range,
                Interval interval) {
        below_[node].insert(interval);
        if (last - first == 1) return;
        const std::int32_t middle = first + (last - first) / 2;
        if (covers(range, first, last)) {
            own_[middle].insert(interval);
            return;
        }
        if (range.first < middle) insert(node + 1, first, middle, range, interval);
        if (range.last > middle) {
            insert(right_of(node, first, middle), middle, last, range, interval);
        }
    }

    template <class Visit>
    void visit(std::size_t node, std::int32_t first, std::int32_t last, SectionRange range,
               Visit& visit_intervals) const {
        if (below_[node].empty()) return;
        if (covers(range, first, last)) {
            visit_intervals(below_[node]);
            return;
        }
        const std::int32_t middle = first + (last - first) / 2;
        if (!own_[middle].empty()) visit_intervals(own_[middle]);
        if (range.first < middle) visit(node + 1, first, middle, range, visit_intervals);
        if (range.last > middle) {
            visit(right_of(node, first, middle), middle, last, range, visit_intervals);
        }
    }

    static std::size_t right_of(std::size_t node, std::int32_t first, std::int32_t middle) {
        return node + 2 * static_cast<std::size_t>(middle - first);
    }

    static bool covers(SectionRange range, std::int32_t first, std::int32_t last) {
        return range.first <= first && last <= range.last;
    }

    std::int32_t sections_;
    std::vector<DisjointIntervals> own_, below_;
};

}  // namespace gapless
