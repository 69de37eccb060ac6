#include "allocator/hand_overs.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "allocator/block.h"

namespace gapless::runtime {

namespace {

// Bytes of the arena that one slot had.
struct Piece {
    std::int64_t end;
    std::int32_t slot;
};
using Pieces = std::map<std::int64_t, Piece>;  // by where they begin

struct Sweep {
    Pieces first;  // slots that had each byte first in a step
    Pieces last;
};

// Cuts the piece that reaches over an offset.
void cut(Pieces& pieces, std::int64_t at) {
    auto above = pieces.lower_bound(at);
    if (above == pieces.begin()) return;
    const auto below = std::prev(above);
    if (below->second.end <= at) return;
    pieces.emplace_hint(above, at, below->second);
    below->second.end = at;
}

void fill_holes(Pieces& pieces, std::int64_t begin, std::int64_t end, std::int32_t slot) {
    auto next = pieces.upper_bound(begin);
    if (next != pieces.begin()) begin = std::max(begin, std::prev(next)->second.end);
    while (begin < end) {
        const std::int64_t stop = next == pieces.end() ? end : std::min(end, next->first);
        if (begin < stop) pieces.emplace_hint(next, begin, Piece{stop, slot});
        if (next == pieces.end()) return;
        begin = next->second.end;
        ++next;
    }
}

void take(Sweep& made, KindPlan& kind, std::size_t slot, std::int64_t begin) {
    if (begin == kNoPlace) return;
    const auto bytes = round_up(static_cast<std::size_t>(kind.most[slot]), kBlockAlignment);
    const std::int64_t end = begin + static_cast<std::int64_t>(bytes);
    const auto number = static_cast<std::int32_t>(slot);
    cut(made.last, begin);
    cut(made.last, end);
    auto piece = made.last.lower_bound(begin);
    while (piece != made.last.end() && piece->first < end) {
        const std::int32_t before = piece->second.slot;
        if (kind.stream[before] != kind.stream[slot]) kind.handed_over[before] = 1;
        piece = made.last.erase(piece);
    }
    made.last.emplace_hint(piece, begin, Piece{end, number});
    fill_holes(made.first, begin, end, number);
}

Sweep sweep(KindPlan& kind) {
    Sweep made;
    for (std::size_t slot = 0; slot < kind.slot_count(); ++slot) {
        take(made, kind, slot, kind.offset[slot]);
        take(made, kind, slot, kind.spare[slot]);
    }
    return made;
}

void mark_between(KindPlan& before, const Pieces& last, const KindPlan& after,
                  const Pieces& first) {
    auto ours = last.begin();
    auto theirs = first.begin();
    while (ours != last.end() && theirs != first.end()) {
        const bool meet = ours->first < theirs->second.end && theirs->first < ours->second.end;
        const std::int32_t slot = ours->second.slot;
        if (meet && before.stream[slot] != after.stream[theirs->second.slot]) {
            before.handed_over[slot] = 1;
        }
        if (ours->second.end < theirs->second.end) {
            ++ours;
        } else {
            ++theirs;
        }
    }
}

bool share_one_stream(const std::vector<KindPlan>& kinds) {
    const Stream* one = nullptr;
    for (const KindPlan& kind : kinds) {
        for (const Stream& stream : kind.stream) {
            if (one == nullptr) one = &stream;
            if (stream != *one) return false;
        }
    }
    return true;
}

}  // namespace

void mark_hand_overs(std::vector<KindPlan>& kinds) {
    for (KindPlan& kind : kinds) kind.handed_over.assign(kind.slot_count(), 0);
    if (share_one_stream(kinds)) return;
    std::vector<Sweep> sweeps;
    for (KindPlan& kind : kinds) sweeps.push_back(sweep(kind));
    for (std::size_t before = 0; before < kinds.size(); ++before) {
        for (std::size_t after = 0; after < kinds.size(); ++after) {
            mark_between(kinds[before], sweeps[before].last, kinds[after], sweeps[after].first);
        }
    }
}

}  // namespace gapless::runtime
