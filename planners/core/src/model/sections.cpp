#include "model/sections.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

// Maps each step at which a segment starts or ends to a small number. The number is the distance
// from the first step. If these distances would make tables much longer than the list of segments,
// the number is the rank of the step among all starts and ends.
class Timeline {
  public:
    explicit Timeline(std::span<const Segment> segments) {
        if (segments.empty()) return;
        first_ = segments[0].begin;
        std::int64_t last = segments[0].end;
        for (const Segment& segment : segments) {
            first_ = std::min(first_, segment.begin);
            last = std::max(last, segment.end);
        }
        if (distance_to(last) / kLongest < segments.size()) {
            length_ = distance_to(last) + 1;
            return;
        }
        steps_.reserve(2 * segments.size());
        for (const Segment& segment : segments) {
            steps_.push_back(segment.begin);
            steps_.push_back(segment.end);
        }
        std::sort(steps_.begin(), steps_.end());
        steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
        length_ = steps_.size();
    }

    std::size_t length() const { return length_; }

    std::size_t operator()(std::int64_t step) const {
        if (steps_.empty()) return distance_to(step);
        const auto at = std::lower_bound(steps_.begin(), steps_.end(), step);
        return static_cast<std::size_t>(at - steps_.begin());
    }

  private:
    // Distances are used while the steps span less than this many times the segments. A guess.
    static constexpr std::size_t kLongest = 4;

    // The distance is computed in unsigned arithmetic because it may exceed the range of an int64.
    std::size_t distance_to(std::int64_t step) const {
        return static_cast<std::uint64_t>(step) - static_cast<std::uint64_t>(first_);
    }

    std::int64_t first_ = 0;
    std::size_t length_ = 0;
    std::vector<std::int64_t> steps_;
};

}  // namespace

CutTime::CutTime(std::span<const Segment> segments) : ranges(segments.size()) {
    const Timeline number(segments);
    enum : std::int32_t { kStarts = 1, kEnds = 2 };
    std::vector<std::int32_t> table(number.length() + 1, 0);
    for (const Segment& segment : segments) {
        table[number(segment.begin)] |= kStarts;
        table[number(segment.end)] |= kEnds;
    }
    // Replaces the marks of each step by the number of sections that were opened before the step.
    bool in_run = false;
    for (std::int32_t& at_step : table) {
        const std::int32_t happens = at_step;
        at_step = count;
        if (happens & kEnds) in_run = false;
        if (happens & kStarts) {
            if (!in_run) ++count;
            in_run = true;
        }
    }
    for (std::size_t i = 0; i < segments.size(); ++i) {
        ranges[i] = {table[number(segments[i].begin) + 1] - 1, table[number(segments[i].end)]};
    }
}

void require_segments(std::span<const Segment> segments, std::int64_t tensors) {
    require_count("segments", segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const Segment& segment = segments[i];
        require_index("segments", segment.tensor, "tensors", tensors);
        if (segment.begin >= segment.end) {
            refuse("segments", i,
                   "an end above its start, " + std::to_string(segment.begin) + ", is needed",
                   segment.end);
        }
        if (i == 0) continue;
        const Segment& before = segments[i - 1];
        if (segment.tensor < before.tensor) {
            refuse("segments", i,
                   "rows are sorted by tensor, after " + std::to_string(before.tensor),
                   segment.tensor);
        }
        if (segment.tensor == before.tensor && segment.begin < before.end) {
            refuse("segments", i,
                   "tensor " + std::to_string(segment.tensor) + " starts again at or above " +
                       std::to_string(before.end) + ", its end in the row before",
                   segment.begin);
        }
    }
}

Sections::Sections(std::int32_t tensors, std::span<const Segment> segments)
    : offsets_(static_cast<std::size_t>(tensors) + 1, 0) {
    for (const Segment& segment : segments) ++offsets_[segment.tensor + 1];
    for (std::int32_t t = 0; t < tensors; ++t) {
        if (offsets_[t + 1] == 0) {
            throw std::invalid_argument("field segments: every tensor has a row, found none of " +
                                        std::to_string(t));
        }
        offsets_[t + 1] += offsets_[t];
    }
    CutTime time(segments);
    count_ = time.count;
    ranges_ = std::move(time.ranges);
}

bool Sections::overlap(std::int32_t a, std::int32_t b) const {
    for (const SectionRange& x : of(a)) {
        for (const SectionRange& y : of(b)) {
            if (x.first < y.last && y.first < x.last) return true;
        }
    }
    return false;
}

std::vector<std::int64_t> Sections::degrees(Stop& stop) const {
    // The hull of a tensor reaches from its first start to its last end. Its degree is the number
    // of all tensors, less those that end before the hull and those that start after it.
    const auto tensors = static_cast<std::int32_t>(offsets_.size()) - 1;
    std::vector<std::int64_t> ended(static_cast<std::size_t>(count_) + 1, 0);
    std::vector<std::int64_t> started(static_cast<std::size_t>(count_) + 1, 0);
    for (std::int32_t t = 0; t < tensors; ++t) {
        ++ended[of(t).back().last];
        ++started[of(t).front().first];
    }
    for (std::int32_t s = 0; s < count_; ++s) {
        ended[s + 1] += ended[s];
        started[s + 1] += started[s];
    }
    std::vector<std::int64_t> degree(tensors);
    std::vector<std::int32_t> with_gaps;
    for (std::int32_t t = 0; t < tensors; ++t) {
        degree[t] = started[of(t).back().last - 1] - ended[of(t).front().first] - 1;
        if (of(t).size() > 1) with_gaps.push_back(t);
    }
    // A tensor with gaps may miss some tensors that its hull meets. Subtract these pairs.
    for (const std::int32_t g : with_gaps) {
        stop.check();
        for (std::int32_t t = 0; t < tensors; ++t) {
            const bool both = of(t).size() > 1;
            if (t == g || (both && t < g) || overlap(g, t)) continue;
            const bool hulls_meet =
                of(g).front().first < of(t).back().last && of(t).front().first < of(g).back().last;
            if (!hulls_meet) continue;
            --degree[g];
            --degree[t];
        }
    }
    return degree;
}

}  // namespace gapless
