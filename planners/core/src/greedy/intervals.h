// Sorted address intervals that never touch each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace gapless {

// Bytes [begin, end).
struct Interval {
    std::int64_t begin;
    std::int64_t end;
};

// A union of intervals. Intervals that touch are merged, so a densely packed region is one entry. A
// tree has very many unions of one interval; that interval is stored in the object, without an
// allocation.
class DisjointIntervals {
  public:
    DisjointIntervals() = default;
    DisjointIntervals(const DisjointIntervals&) = delete;
    DisjointIntervals& operator=(const DisjointIntervals&) = delete;
    ~DisjointIntervals() {
        if (capacity_ > 1) std::free(many_);
    }

    bool empty() const { return count_ == 0; }
    const Interval* begin() const { return capacity_ > 1 ? many_ : &one_; }
    const Interval* end() const { return begin() + count_; }

    void insert(Interval interval) {
        Interval* const intervals = capacity_ > 1 ? many_ : &one_;
        Interval* const stop = intervals + count_;
        // The first interval that reaches the new one, and later the first beyond it.
        Interval* const first =
            std::lower_bound(intervals, stop, interval.begin,
                             [](const Interval& s, std::int64_t at) { return s.end < at; });
        Interval* last = first;
        while (last != stop && last->begin <= interval.end) {
            interval.begin = std::min(interval.begin, last->begin);
            interval.end = std::max(interval.end, last->end);
            ++last;
        }
        if (first == last) {
            open_at(static_cast<std::uint32_t>(first - intervals), interval);
        } else {
            *first = interval;
            count_ = static_cast<std::uint32_t>(std::copy(last, stop, first + 1) - intervals);
        }
    }

  private:
    void open_at(std::uint32_t index, const Interval& interval) {
        if (count_ == capacity_) grow();
        Interval* const intervals = capacity_ > 1 ? many_ : &one_;
        std::copy_backward(intervals + index, intervals + count_, intervals + count_ + 1);
        intervals[index] = interval;
        ++count_;
    }

    void grow() {
        const std::uint32_t capacity = capacity_ + capacity_ / 2 + 1;
        auto* const intervals = static_cast<Interval*>(
            std::realloc(capacity_ > 1 ? many_ : nullptr, capacity * sizeof(Interval)));
        if (intervals == nullptr) throw std::bad_alloc();
        if (capacity_ == 1) intervals[0] = one_;
        many_ = intervals;
        capacity_ = capacity;
    }

    union {
        Interval one_{};
        // If the capacity exceeds 1; realloc often need not move it.
        Interval* many_;
    };
    std::uint32_t count_ = 0;
    std::uint32_t capacity_ = 1;
};

}  // namespace gapless
