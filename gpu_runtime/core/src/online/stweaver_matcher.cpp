#include "online/stweaver_matcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace gapless::runtime {

StweaverMatcher::StweaverMatcher(const StweaverProfile& profile)
    : first_key_(profile.visits + 1), intervals_(profile.intervals) {
    std::vector<std::size_t> order(profile.places.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key_of = [&](std::size_t place) {
        return std::pair(profile.places[place].visit, profile.places[place].bytes);
    };
    std::ranges::stable_sort(order, {}, key_of);
    for (const std::size_t i : order) {
        const auto& [visit, bytes, offset] = profile.places[i];
        if (keys_.empty() || keys_.back().visit != visit || keys_.back().bytes != bytes) {
            keys_.push_back({visit, bytes, true, places_.size(), places_.size()});
        }
        places_.push_back({offset});
        ++keys_.back().end;
    }
    for (const auto& [visit, bytes, list] : profile.spaces) {
        keys_.push_back(
            {visit, bytes, false, profile.list_begins[list], profile.list_begins[list + 1]});
    }
    // The sort is stable: if a visit and size have a static and a dynamic key, find() returns the
    // static one.
    std::ranges::stable_sort(keys_, {},
                             [](const Key& key) { return std::pair(key.visit, key.bytes); });
    for (const Key& key : keys_) ++first_key_[static_cast<std::size_t>(key.visit) + 1];
    std::partial_sum(first_key_.begin(), first_key_.end(), first_key_.begin());
}

void StweaverMatcher::enter(std::int64_t visit) {
    const auto number = static_cast<std::size_t>(visit);
    const bool is_known = visit >= 0 && number + 1 < first_key_.size();
    begin_ = is_known ? first_key_[number] : 0;
    end_ = is_known ? first_key_[number + 1] : 0;
}

StweaverMatcher::Match StweaverMatcher::match(std::size_t bytes) {
    Key* const key = find(bytes);
    if (key != nullptr && key->is_static) {
        if (key->iteration != iteration_) {
            key->iteration = iteration_;
            key->next = key->begin;
        }
        while (key->next < key->end && places_[key->next].is_held) ++key->next;
        if (key->next < key->end) return {.place = &places_[key->next++]};
    }
    return space_of(key != nullptr && !key->is_static ? key : find(0));
}

StweaverMatcher::Key* StweaverMatcher::find(std::size_t bytes) {
    const auto last = keys_.begin() + static_cast<std::ptrdiff_t>(end_);
    const auto found =
        std::lower_bound(keys_.begin() + static_cast<std::ptrdiff_t>(begin_), last, bytes,
                         [](const Key& key, std::size_t size) { return key.bytes < size; });
    return found != last && found->bytes == bytes ? &*found : nullptr;
}

StweaverMatcher::Match StweaverMatcher::space_of(const Key* key) const {
    if (key == nullptr) return {};
    return {.first = intervals_.data() + key->begin, .last = intervals_.data() + key->end};
}

}  // namespace gapless::runtime
