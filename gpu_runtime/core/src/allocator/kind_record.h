// The observations of one kind of step: its requests, their sizes, and their lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gapless::runtime {

// Pairs of a role of a kind and the handle of the stream that has this role.
using Roles = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Each column has one entry for each slot; a slot is a request, by its number in the step. Time is
// counted in requests of all streams: a block that is freed before request q is made ends at q. In
// a step of n requests, n is the end.
struct KindRecord {
    std::int64_t number = 0;  // unique among all kinds that a program ever had
    std::int32_t label = 0;
    std::vector<std::int64_t> stream;
    // Requested bytes: smallest, largest, in the last step.
    std::vector<std::int64_t> least, most, last;
    std::vector<std::int64_t> end;  // the latest end within its own step
    // The latest end among steps that freed it themselves, or 0.
    std::vector<std::int64_t> short_end;
    std::vector<std::uint8_t> was_freed;
    std::vector<std::uint8_t> renewed;  // 1 if it was ever still in use when requested again
    // By the number of a kind that came later: the latest end of each slot within a step of that
    // kind.
    std::map<std::int64_t, std::vector<std::int64_t>> later;
    std::int64_t seen = 0;       // number of steps seen
    std::int64_t last_seen = 0;  // number of the last segment that was of this kind

    std::size_t slot_count() const { return stream.size(); }
    // Returns true if a slot lives too long for a place: never freed, or always still in use when
    // it is requested again.
    bool escapes(std::size_t slot) const {
        return !(was_freed[slot] && (short_end[slot] > 0 || !renewed[slot]));
    }
    // Returns true if a slot was still in use whenever it was requested again. Such a slot teaches
    // nothing more.
    bool is_always_renewed(std::size_t slot) const {
        return was_freed[slot] && renewed[slot] && short_end[slot] == 0;
    }

    // Returns which streams have which roles in a step, or nothing if the streams do not match.
    std::optional<Roles> roles_of(std::span<const std::int64_t> streams) const;
    // Returns true if the sizes may be those of another step of this kind.
    bool is_alike(std::span<const std::int64_t> sizes) const;
    // Number of slots whose size lies outside of the sizes seen.
    std::size_t unlikeness(std::span<const std::int64_t> sizes) const;

    // Each adds an observation, and returns true if a plan must know of it.
    bool widen(const std::vector<std::int64_t>& sizes);
    bool raise_end(std::size_t slot, std::int64_t end_seen);
    bool raise_short_end(std::size_t slot, std::int64_t end_seen);
    bool take_freed(std::size_t slot);
    bool take_end_in(std::int64_t kind, std::size_t slot, std::int64_t end_seen);
};

// Throws std::invalid_argument, naming the kind, if columns differ in length.
void require_columns(const KindRecord& kind);

}  // namespace gapless::runtime
