#include "instance.h"

#include <algorithm>

namespace gapless {

namespace {

struct Placed {
    std::int64_t begin, end;
    std::int32_t tensor;
};

std::vector<Placed> pinned_tensors(const Instance& instance) {
    std::vector<Placed> placed;
    const Blocks& blocks = instance.blocks;
    for (std::int32_t b = 0; b < blocks.count(); ++b) {
        if (blocks.pinned[b] == kNotPinned) continue;
        const auto members = blocks.members_of(b);
        for (std::size_t m = 0; m < members.size(); ++m) {
            const std::int64_t begin = blocks.pinned[b] + blocks.before_of(b, m);
            const std::int64_t bytes = instance.size[members[m]];
            if (bytes > 0) placed.push_back({begin, begin + bytes, members[m]});
        }
    }
    return placed;
}

}  // namespace

std::optional<std::pair<std::int32_t, std::int32_t>> Instance::conflicting_pins() const {
    std::vector<Placed> placed = pinned_tensors(*this);
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    std::vector<Placed> open;
    for (const Placed& next : placed) {
        std::erase_if(open, [&](const Placed& p) { return p.end <= next.begin; });
        for (const Placed& p : open) {
            if (unsafe(p.tensor, next.tensor)) return std::minmax(p.tensor, next.tensor);
        }
        open.push_back(next);
    }
    return std::nullopt;
}

std::vector<std::int64_t> Instance::unsafe_degrees() const {
    if (sections) return sections->degrees();
    std::vector<std::int64_t> degree(size.size());
    for (std::size_t t = 0; t < size.size(); ++t) degree[t] = unsafe_rows->count_row(t);
    return degree;
}

}  // namespace gapless
