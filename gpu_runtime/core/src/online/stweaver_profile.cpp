#include "online/stweaver_profile.h"

#include <stdexcept>
#include <string>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Each visit has an entry in a table. No recording has as many.
constexpr std::size_t kMostVisits = std::size_t{1} << 24;

void require(bool holds, const char* field, std::size_t entry, const char* rule) {
    if (holds) return;
    throw std::invalid_argument(std::string(field) + ", entry " + std::to_string(entry) + ": " +
                                rule);
}

}  // namespace

void StweaverProfile::validate() const {
    const auto is_visit = [this](std::int64_t visit) {
        return visit >= 0 && static_cast<std::size_t>(visit) < visits;
    };
    require(visits <= kMostVisits, "visits", 0, "at most 16777216 are possible");
    require(pool_bytes <= kMostBytes, "pool_bytes", 0, "no device has as much");
    for (std::size_t i = 0; i < places.size(); ++i) {
        const Place& its = places[i];
        require(is_visit(its.visit), "places", i, "a visit below their number is needed");
        const std::size_t bytes =
            its.bytes > pool_bytes ? its.bytes : round_up(its.bytes, kBlockAlignment);
        require(its.bytes > 0 && its.offset % kBlockAlignment == 0 && bytes <= pool_bytes &&
                    its.offset <= pool_bytes - bytes,
                "places", i, "a place in the pool, at a multiple of 512 bytes, is needed");
    }
    const std::size_t lists = list_begins.size() - 1;
    require(
        !list_begins.empty() && list_begins.front() == 0 && list_begins.back() == intervals.size(),
        "list_begins", 0, "from 0 to the number of intervals is needed");
    for (std::size_t list = 0; list < lists; ++list) {
        require(
            list_begins[list] <= list_begins[list + 1] && list_begins[list + 1] <= intervals.size(),
            "list_begins", list + 1, "lists follow each other up to the last interval");
        std::size_t end = 0;
        for (std::size_t i = list_begins[list]; i < list_begins[list + 1]; ++i) {
            require(intervals[i].begin % kBlockAlignment == 0 && intervals[i].begin >= end &&
                        intervals[i].begin < intervals[i].end && intervals[i].end <= pool_bytes,
                    "intervals", i, "ascending ranges of the pool from multiples of 512 bytes");
            end = intervals[i].end;
        }
    }
    for (std::size_t i = 0; i < spaces.size(); ++i) {
        require(is_visit(spaces[i].visit), "spaces", i, "a visit below their number is needed");
        require(spaces[i].list < lists, "spaces", i, "a list below their number is needed");
    }
}

}  // namespace gapless::runtime
