// What was seen of one kind of step: its requests, how large, and how long their memory lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gapless::runtime {

// Who is who: roles of a kind, and the handles of the streams that have them.
using Roles = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Columns have one entry a slot, which is a request by its number in the step. Time is counted in
// requests of all streams together: what is freed before request q is made ends at q, and with n
// requests n is the end.
struct KindRecord {
    std::int64_t number = 0;  // among all kinds that a program ever had
    std::int32_t label = 0;
    std::vector<std::int64_t> stream;
    std::vector<std::int64_t> least, most, last;  // bytes as requested; in the last step
    std::vector<std::int64_t> end;                // the latest within its own step
    std::vector<std::int64_t> short_end;  // the same among steps that freed it themselves, or 0
    std::vector<std::uint8_t> was_freed;
    std::vector<std::uint8_t> renewed;  // whether it was ever in use when it was asked for again
    // By number of a kind that came after it: until when each slot was in use there, at the latest.
    std::map<std::int64_t, std::vector<std::int64_t>> later;
    std::int64_t seen = 0;       // how many steps there were
    std::int64_t last_seen = 0;  // which segment of all came last

    std::size_t slot_count() const { return stream.size(); }
    // Too long for a place: always renewed, or never freed.
    bool escapes(std::size_t slot) const {
        return !(was_freed[slot] && (short_end[slot] > 0 || !renewed[slot]));
    }
    // Of what is in use whenever it is asked for again, nothing is to be learnt but that.
    bool is_always_renewed(std::size_t slot) const {
        return was_freed[slot] && renewed[slot] && short_end[slot] == 0;
    }

    // Who the streams of a step are; nothing where they are others.
    std::optional<Roles> roles_of(std::span<const std::int64_t> streams) const;
    // Whether sizes may be those of another step of this kind.
    bool is_alike(std::span<const std::int64_t> sizes) const;
    // How many sizes were never seen.
    std::size_t unlikeness(std::span<const std::int64_t> sizes) const;

    // Each takes what was seen, and returns whether a plan has to know.
    bool widen(const std::vector<std::int64_t>& sizes);
    bool raise_end(std::size_t slot, std::int64_t end_seen);
    bool raise_short_end(std::size_t slot, std::int64_t end_seen);
    bool take_freed(std::size_t slot);
    bool take_end_in(std::int64_t kind, std::size_t slot, std::int64_t end_seen);
};

// Throws std::invalid_argument, with the kind, where columns do not have as many entries.
void require_columns(const KindRecord& kind);

}  // namespace gapless::runtime
