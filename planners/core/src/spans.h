// Sorted address spans that never touch each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gapless {

// Bytes [begin, end).
struct Span {
    std::int64_t begin;
    std::int64_t end;
};

// A union of spans; what touches is merged, so that a densely packed region is one entry.
class MergedSpans {
  public:
    bool empty() const { return spans_.empty(); }
    const Span* begin() const { return spans_.data(); }
    const Span* end() const { return spans_.data() + spans_.size(); }

    void insert(Span span) {
        // The first that reaches the new span, and the first beyond it.
        auto first = std::lower_bound(spans_.begin(), spans_.end(), span.begin,
                                      [](const Span& s, std::int64_t at) { return s.end < at; });
        auto last = first;
        while (last != spans_.end() && last->begin <= span.end) {
            span.begin = std::min(span.begin, last->begin);
            span.end = std::max(span.end, last->end);
            ++last;
        }
        if (first == last) {
            spans_.insert(first, span);
        } else {
            *first = span;
            spans_.erase(first + 1, last);
        }
    }

  private:
    std::vector<Span> spans_;
};

}  // namespace gapless
