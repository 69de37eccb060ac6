#include "homosize/memory_layers.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "model/require.h"

namespace gapless {

namespace {

constexpr std::int64_t kNone = -1;

// The layers opened so far and their occupied bytes. All layers lie on one line, in the order in
// which the search visits them; the search goes from low to high addresses. To visit the last
// opened layer first, each new layer is placed below all others, at negative addresses.
class Layers {
  public:
    Layers(std::int32_t sections, InsertionRules rules) : rules_(rules), occupied_(sections) {}

    std::int64_t count() const { return static_cast<std::int64_t>(sizes_.size()); }
    std::vector<std::int64_t>&& take_sizes() { return std::move(sizes_); }

    void open(std::int64_t bytes) {
        sizes_.push_back(bytes);
        ends_.push_back((ends_.empty() ? 0 : ends_.back()) + bytes);
    }

    // Returns where `bytes` bytes of one layer are free throughout a lifetime, or the end of the
    // line.
    std::int64_t find(SectionRange lifetime, std::int64_t bytes) {
        const std::int64_t total = ends_.empty() ? 0 : ends_.back();
        const std::int64_t line_end = rules_.smallest_first ? 0 : total;
        std::int64_t at = line_end - total;
        while (true) {
            at = occupied_.next_free(lifetime, bytes, at);
            if (at >= line_end) return line_end;
            const Interval layer = interval_of(layer_at(at));
            if (at + bytes <= layer.end) return at;
            at = layer.end;
        }
    }

    bool is_end(std::int64_t at) const {
        return at >= (rules_.smallest_first || ends_.empty() ? 0 : ends_.back());
    }

    std::int64_t layer_at(std::int64_t at) const {
        const auto layer = rules_.smallest_first ? std::lower_bound(ends_.begin(), ends_.end(), -at)
                                                 : std::upper_bound(ends_.begin(), ends_.end(), at);
        return layer - ends_.begin();
    }

    Interval interval_of(std::int64_t layer) const {
        const std::int64_t end = ends_[layer];
        if (rules_.smallest_first) return {-end, sizes_[layer] - end};
        return {end - sizes_[layer], end};
    }

    void occupy(SectionRange lifetime, std::int64_t layer, Interval bytes) {
        occupied_.occupy(lifetime, rules_.beside ? bytes : interval_of(layer));
    }

  private:
    InsertionRules rules_;
    std::vector<std::int64_t> sizes_;
    std::vector<std::int64_t> ends_;
    OccupiedBytes occupied_;
};

void require_order(const Requests& requests) {
    for (std::int32_t r = 1; r < requests.count(); ++r) {
        const std::int64_t size = requests.size[r - 1], start = requests.start[r - 1];
        if (requests.size[r] > size) {
            refuse("size", r, "requests come by falling size, after " + std::to_string(size),
                   requests.size[r]);
        }
        if (requests.size[r] == size && requests.start[r] < start) {
            refuse("start", r,
                   "those of a size come by their starts, after " + std::to_string(start),
                   requests.start[r]);
        }
    }
}

}  // namespace

std::vector<std::int64_t> memory_layers(std::span<const std::int64_t> start,
                                        std::span<const std::int64_t> end) {
    require_lifetimes(start, end);
    require_rising(start);
    std::vector<std::int64_t> layer(start.size());
    // The end of each layer and its negated number. Among layers of equal ends, the lowest layer
    // has the largest key.
    std::set<std::pair<std::int64_t, std::int64_t>> ends;
    std::int64_t layers = 0;
    for (std::size_t r = 0; r < start.size(); ++r) {
        auto latest = ends.upper_bound({start[r], std::numeric_limits<std::int64_t>::max()});
        if (latest == ends.begin()) {
            layer[r] = layers++;
        } else {
            --latest;
            layer[r] = -latest->second;
            ends.erase(latest);
        }
        ends.emplace(end[r], -layer[r]);
    }
    return layer;
}

LayeredPlan plan_in_layers(Requests requests, InsertionRules rules, Stop& stop) {
    require_order(requests);
    const CutTime sections = sections_of({requests});
    const std::span<const SectionRange> lifetimes = sections.ranges;
    const auto count = static_cast<std::size_t>(requests.count());
    LayeredPlan plan{std::vector<std::int64_t>(count, kNone), std::vector<std::int64_t>(count), {}};
    Layers layers(sections.count, rules);
    std::vector<std::size_t> rest;
    std::vector<std::int64_t> rest_start, rest_end;
    for (std::size_t first = 0, last = 0; first < count; first = last) {
        const std::int64_t bytes = requests.size[first];
        rest.clear(), rest_start.clear(), rest_end.clear();
        for (; last < count && requests.size[last] == bytes; ++last) {
            stop.poll();
            const std::int64_t at = layers.find(lifetimes[last], bytes);
            if (layers.is_end(at)) {
                rest.push_back(last);
                rest_start.push_back(requests.start[last]);
                rest_end.push_back(requests.end[last]);
                continue;
            }
            plan.layer[last] = layers.layer_at(at);
            plan.within[last] = at - layers.interval_of(plan.layer[last]).begin;
            layers.occupy(lifetimes[last], plan.layer[last], {at, at + bytes});
        }
        const std::int64_t opened = layers.count();
        const std::vector<std::int64_t> own = memory_layers(rest_start, rest_end);
        for (std::size_t i = 0; i < rest.size(); ++i) {
            const std::int64_t layer = opened + own[i];
            if (layer == layers.count()) layers.open(bytes);
            plan.layer[rest[i]] = layer;
            layers.occupy(lifetimes[rest[i]], layer, layers.interval_of(layer));
        }
    }
    plan.layer_size = layers.take_sizes();
    return plan;
}

}  // namespace gapless
