// Sorted address spans that never touch each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gapless {

// Bytes [begin, end).
struct Span {
    std::int64_t begin;
    std::int64_t end;
};

// A union of spans; what touches is merged, so that a densely packed region is one entry. A tree
// has very many unions of a single span: these lie in the object itself and take no memory
// elsewhere.
class DisjointIntervals {
  public:
    DisjointIntervals() = default;
    DisjointIntervals(const DisjointIntervals&) = delete;
    DisjointIntervals& operator=(const DisjointIntervals&) = delete;
    ~DisjointIntervals() {
        if (capacity_ > 1) std::free(many_);
    }

    bool empty() const { return count_ == 0; }
    const Span* begin() const { return capacity_ > 1 ? many_ : &one_; }
    const Span* end() const { return begin() + count_; }

    void insert(Span span) {
        Span* const spans = capacity_ > 1 ? many_ : &one_;
        Span* const stop = spans + count_;
        // The first that reaches the new span, and the first beyond it.
        Span* const first = std::lower_bound(
            spans, stop, span.begin, [](const Span& s, std::int64_t at) { return s.end < at; });
        Span* last = first;
        while (last != stop && last->begin <= span.end) {
            span.begin = std::min(span.begin, last->begin);
            span.end = std::max(span.end, last->end);
            ++last;
        }
        if (first == last) {
            open_at(static_cast<std::uint32_t>(first - spans), span);
        } else {
            *first = span;
            count_ = static_cast<std::uint32_t>(std::copy(last, stop, first + 1) - spans);
        }
    }

  private:
    void open_at(std::uint32_t index, const Span& span) {
        if (count_ == capacity_) grow();
        Span* const spans = capacity_ > 1 ? many_ : &one_;
        std::copy_backward(spans + index, spans + count_, spans + count_ + 1);
        spans[index] = span;
        ++count_;
    }

    void grow() {
        const std::uint32_t capacity = capacity_ + capacity_ / 2 + 1;
        auto* const spans = static_cast<Span*>(
            std::realloc(capacity_ > 1 ? many_ : nullptr, capacity * sizeof(Span)));
        if (spans == nullptr) throw std::bad_alloc();
        if (capacity_ == 1) spans[0] = one_;
        many_ = spans;
        capacity_ = capacity;
    }

    union {
        Span one_{};
        Span* many_;  // where the capacity is above 1; from realloc, which often need not move it
    };
    std::uint32_t count_ = 0;
    std::uint32_t capacity_ = 1;
};

}  // namespace gapless
