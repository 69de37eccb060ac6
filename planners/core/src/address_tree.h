// Which bytes are taken during a range of sections.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "sections.h"
#include "spans.h"

namespace gapless {

// Note [Address tree]
// ~~~~~~~~~~~~~~~~~~~
// A segment tree over the sections. A placed tensor is cut into the O(log T) nodes whose ranges
// make up its own; each node holds `own`, the bytes of the tensors that were cut into it, and
// `below`, the bytes of all tensors cut into it or into a node under it. The bytes taken at some
// section of a query range are then the union of `own` over the proper ancestors of the range's
// nodes and of `below` over these nodes: O(log T) sorted lists, which a search walks side by side.
// Tensors that touch are merged, so that lists are as long as the packing is fragmented, not as
// long as there are tensors: this is what keeps a million placements near-linear.
class AddressTree {
  public:
    explicit AddressTree(std::int32_t sections)
        : leaves_(std::bit_ceil(static_cast<std::uint32_t>(std::max(sections, 1)))),
          own_(2 * leaves_),
          below_(2 * leaves_) {}

    void insert(SectionRange range, Span span) { insert(1, 0, leaves_, range, span); }

    // Calls visit(list) for the non-empty lists whose union is what is taken during the range.
    template <class Visit>
    void visit(SectionRange range, Visit&& visit_list) const {
        visit(1, 0, leaves_, range, visit_list);
    }

  private:
    void insert(std::size_t node, std::uint32_t first, std::uint32_t last, SectionRange range,
                Span span) {
        below_[node].insert(span);
        if (covers(range, first, last)) {
            own_[node].insert(span);
            return;
        }
        const std::uint32_t middle = (first + last) / 2;
        if (static_cast<std::uint32_t>(range.first) < middle) {
            insert(2 * node, first, middle, range, span);
        }
        if (static_cast<std::uint32_t>(range.last) > middle) {
            insert(2 * node + 1, middle, last, range, span);
        }
    }

    template <class Visit>
    void visit(std::size_t node, std::uint32_t first, std::uint32_t last, SectionRange range,
               Visit& visit_list) const {
        if (below_[node].empty()) return;
        if (covers(range, first, last)) {
            visit_list(below_[node]);
            return;
        }
        if (!own_[node].empty()) visit_list(own_[node]);
        const std::uint32_t middle = (first + last) / 2;
        if (static_cast<std::uint32_t>(range.first) < middle) {
            visit(2 * node, first, middle, range, visit_list);
        }
        if (static_cast<std::uint32_t>(range.last) > middle) {
            visit(2 * node + 1, middle, last, range, visit_list);
        }
    }

    static bool covers(SectionRange range, std::uint32_t first, std::uint32_t last) {
        return static_cast<std::uint32_t>(range.first) <= first &&
               last <= static_cast<std::uint32_t>(range.last);
    }

    std::uint32_t leaves_;
    std::vector<MergedSpans> own_, below_;
};

}  // namespace gapless
