#include "reorder/cone_move.h"

#include <algorithm>

namespace gapless {

std::span<const std::int32_t> ConeMove::postpone(std::span<const std::int32_t> window) {
    rest_.clear();
    cone_.assign(1, window.front());
    in_cone_[window.front()] = 1;
    for (const std::int32_t v : window.subspan(1)) {
        const auto before = problem_.predecessors(v);
        const bool goes_with = std::any_of(before.begin(), before.end(),
                                           [&](std::int32_t u) { return in_cone_[u] != 0; });
        in_cone_[v] = goes_with;
        (goes_with ? cone_ : rest_).push_back(v);
    }
    for (const std::int32_t v : cone_) in_cone_[v] = 0;
    rest_.insert(rest_.end(), cone_.begin(), cone_.end());
    return rest_;
}

std::span<const std::int32_t> ConeMove::hasten(std::span<const std::int32_t> window) {
    rest_.clear();
    cone_.assign(1, window.back());
    in_cone_[window.back()] = 1;
    for (std::size_t w = window.size() - 1; w-- > 0;) {
        const std::int32_t v = window[w];
        const auto after = problem_.successors(v);
        const bool goes_with = std::any_of(after.begin(), after.end(),
                                           [&](std::int32_t u) { return in_cone_[u] != 0; });
        in_cone_[v] = goes_with;
        (goes_with ? cone_ : rest_).push_back(v);
    }
    for (const std::int32_t v : cone_) in_cone_[v] = 0;
    std::reverse(cone_.begin(), cone_.end());
    std::reverse(rest_.begin(), rest_.end());
    cone_.insert(cone_.end(), rest_.begin(), rest_.end());
    return cone_;
}

}  // namespace gapless
