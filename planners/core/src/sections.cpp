#include "sections.h"

#include <algorithm>
#include <tuple>

namespace gapless {

Sections::Sections(std::int32_t tensors, std::span<const Segment> segments)
    : offsets_(static_cast<std::size_t>(tensors) + 1, 0), ranges_(segments.size()) {
    struct Event {
        std::int64_t step;
        std::int32_t segment;
        bool starts;
    };
    std::vector<Event> events;
    events.reserve(2 * segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
        ++offsets_[segments[i].tensor + 1];
        events.push_back({segments[i].begin, static_cast<std::int32_t>(i), true});
        events.push_back({segments[i].end, static_cast<std::int32_t>(i), false});
    }
    for (std::int32_t t = 0; t < tensors; ++t) offsets_[t + 1] += offsets_[t];
    std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return std::tie(a.step, a.starts) < std::tie(b.step, b.starts);
    });
    bool in_run = false;
    for (const Event& event : events) {
        if (event.starts) {
            if (!in_run) ++count_;
            ranges_[event.segment].first = count_ - 1;
        } else {
            ranges_[event.segment].last = count_;
        }
        in_run = event.starts;
    }
}

bool Sections::overlap(std::int32_t a, std::int32_t b) const {
    for (const SectionRange& x : of(a)) {
        for (const SectionRange& y : of(b)) {
            if (x.first < y.last && y.first < x.last) return true;
        }
    }
    return false;
}

std::vector<std::int64_t> Sections::degrees() const {
    // Over the hull of each tensor: all tensors, less those that end before it and start after it.
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
    // A tensor with gaps meets fewer than its hull does.
    for (const std::int32_t g : with_gaps) {
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
