#include "allocator/kind_record.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "allocator/kind_plan.h"

namespace gapless::runtime {

namespace {

// At most 1/10 of the sizes may be unlike in two steps of one kind. A guess.
constexpr std::size_t kUnlikeShare = 10;
// Factors within which two sizes are alike. If all sizes grew, or all shrank, kOneWayFactor holds:
// a sequence eight times as long has attention scores 64 times as large. Otherwise kFactor holds, a
// guess.
constexpr std::int64_t kOneWayFactor = 64, kFactor = 4;

bool raise(std::int64_t& known, std::int64_t found) {
    if (found <= known) return false;
    known = found;
    return true;
}

}  // namespace

std::optional<Roles> KindRecord::roles_of(std::span<const std::int64_t> streams) const {
    if (streams.size() != slot_count()) return std::nullopt;
    if (std::ranges::equal(streams, stream)) return Roles{};
    Roles roles;
    for (std::size_t slot = 0; slot < streams.size(); ++slot) {
        const std::pair<std::int64_t, std::int64_t> pair{stream[slot], streams[slot]};
        if (pair.first < static_cast<std::int64_t>(kFirstRole)) {
            if (pair.first != pair.second) return std::nullopt;
            continue;
        }
        const auto clash = std::ranges::find_if(roles, [&](const auto& known) {
            return known.first == pair.first || known.second == pair.second;
        });
        if (clash == roles.end()) {
            roles.push_back(pair);
        } else if (*clash != pair) {
            return std::nullopt;
        }
    }
    return roles;
}

bool KindRecord::is_alike(std::span<const std::int64_t> sizes) const {
    std::size_t near = 0, grown = 0, shrunk = 0;
    for (std::size_t slot = 0; slot < sizes.size(); ++slot) {
        const std::int64_t now = sizes[slot], before = last[slot];
        const std::int64_t larger = std::max(now, before), smaller = std::min(now, before);
        const bool is_one_way = larger <= kOneWayFactor * smaller;
        near += larger <= kFactor * smaller;
        grown += is_one_way && now >= before;
        shrunk += is_one_way && now <= before;
    }
    const std::size_t enough = sizes.size() - sizes.size() / kUnlikeShare;
    return std::max({near, grown, shrunk}) >= enough;
}

std::size_t KindRecord::unlikeness(std::span<const std::int64_t> sizes) const {
    std::size_t count = 0;
    for (std::size_t slot = 0; slot < sizes.size(); ++slot) {
        count += sizes[slot] < least[slot] || sizes[slot] > most[slot];
    }
    return count;
}

bool KindRecord::widen(const std::vector<std::int64_t>& sizes) {
    bool is_news = false;
    for (std::size_t slot = 0; slot < sizes.size(); ++slot) {
        const std::int64_t size = sizes[slot];
        // That a size begins to vary must be planned for; a new smallest size of a varying slot
        // need not.
        is_news |= size > most[slot] || (least[slot] == most[slot] && size < least[slot]);
        least[slot] = std::min(least[slot], size);
        most[slot] = std::max(most[slot], size);
    }
    last = sizes;
    return is_news;
}

bool KindRecord::raise_end(std::size_t slot, std::int64_t end_seen) {
    return raise(end[slot], end_seen);
}

bool KindRecord::raise_short_end(std::size_t slot, std::int64_t end_seen) {
    return raise(short_end[slot], end_seen);
}

bool KindRecord::take_freed(std::size_t slot) {
    return std::exchange(was_freed[slot], std::uint8_t{1}) == 0;
}

bool KindRecord::take_end_in(std::int64_t kind, std::size_t slot, std::int64_t end_seen) {
    if (end_seen == 0) return false;
    std::vector<std::int64_t>& known = later[kind];
    known.resize(slot_count());
    bool is_news = raise(known[slot], end_seen);
    if (kind == number && end_seen > static_cast<std::int64_t>(slot)) {
        is_news |= std::exchange(renewed[slot], std::uint8_t{1}) == 0;
    }
    return is_news;
}

void require_columns(const KindRecord& kind) {
    const auto require = [&](const char* name, std::size_t found) {
        if (found == kind.slot_count()) return;
        throw std::invalid_argument(
            "kind " + std::to_string(kind.number) + ": every request has an entry in " + name +
            ", found " + std::to_string(found) + " for " + std::to_string(kind.slot_count()));
    };
    require("least", kind.least.size());
    require("most", kind.most.size());
    require("last", kind.last.size());
    require("end", kind.end.size());
    require("short_end", kind.short_end.size());
    require("was_freed", kind.was_freed.size());
    require("renewed", kind.renewed.size());
    for (const auto& [number, ends] : kind.later) require("later", ends.size());
}

}  // namespace gapless::runtime
