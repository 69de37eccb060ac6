#include "allocator/hand_overs.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "allocator/block.h"

namespace gapless::runtime {

namespace {

// A range of arena bytes and the request that has it.
struct Piece {
    std::int64_t end;
    std::int32_t request;
};
using Pieces = std::map<std::int64_t, Piece>;  // by begin offset

struct Sweep {
    Pieces first;  // the first request of a step at each byte
    Pieces last;
};

// Splits the piece that spans an offset.
void cut(Pieces& pieces, std::int64_t at) {
    auto above = pieces.lower_bound(at);
    if (above == pieces.begin()) return;
    const auto below = std::prev(above);
    if (below->second.end <= at) return;
    pieces.emplace_hint(above, at, below->second);
    below->second.end = at;
}

void fill_holes(Pieces& pieces, std::int64_t begin, std::int64_t end, std::int32_t request) {
    auto next = pieces.upper_bound(begin);
    if (next != pieces.begin()) begin = std::max(begin, std::prev(next)->second.end);
    while (begin < end) {
        const std::int64_t stop = next == pieces.end() ? end : std::min(end, next->first);
        if (begin < stop) pieces.emplace_hint(next, begin, Piece{stop, request});
        if (next == pieces.end()) return;
        begin = next->second.end;
        ++next;
    }
}

void take(Sweep& made, StepPlan& plan, std::size_t request) {
    const std::int64_t begin = plan.offset[request];
    if (begin == kNoPlace || plan.beside[request] != 0) return;
    const auto bytes = round_up(static_cast<std::size_t>(plan.bytes[request]), kBlockAlignment);
    const std::int64_t end = begin + static_cast<std::int64_t>(bytes);
    const auto number = static_cast<std::int32_t>(request);
    cut(made.last, begin);
    cut(made.last, end);
    auto piece = made.last.lower_bound(begin);
    while (piece != made.last.end() && piece->first < end) {
        const std::int32_t before = piece->second.request;
        if (plan.stream[before] != plan.stream[request]) plan.handed_over[before] = 1;
        piece = made.last.erase(piece);
    }
    made.last.emplace_hint(piece, begin, Piece{end, number});
    fill_holes(made.first, begin, end, number);
}

Sweep sweep(StepPlan& plan) {
    Sweep made;
    for (std::size_t request = 0; request < plan.request_count(); ++request) {
        take(made, plan, request);
    }
    return made;
}

// Bytes that some plan uses at some time of its step.
struct Taken {
    std::int64_t begin, end;
    Stream stream;   // the first stream there
    bool is_shared;  // other plans give these bytes to another stream first
};

// Sorted by offset and merged as far as possible. One sweep over the piece ends of all plans, so
// that plans are not compared in pairs.
std::vector<Taken> taken_first(const std::vector<StepPlan>& plans,
                               const std::vector<Sweep>& sweeps) {
    struct Edge {
        std::int64_t at;
        Stream stream;
        int change;
    };
    std::vector<Edge> edges;
    for (std::size_t plan = 0; plan < plans.size(); ++plan) {
        for (const auto& [begin, piece] : sweeps[plan].first) {
            const Stream stream = plans[plan].stream[piece.request];
            edges.push_back({begin, stream, 1});
            edges.push_back({piece.end, stream, -1});
        }
    }
    std::ranges::sort(edges, {}, &Edge::at);
    std::vector<Taken> taken;
    std::map<Stream, int> takers;
    for (std::size_t edge = 0; edge < edges.size(); ++edge) {
        const std::int64_t begin = edges[edge].at;
        const auto taker = takers.try_emplace(edges[edge].stream, 0).first;
        if ((taker->second += edges[edge].change) == 0) takers.erase(taker);
        if (takers.empty() || edges[edge + 1].at == begin) continue;
        const Taken next{begin, edges[edge + 1].at, takers.begin()->first, takers.size() > 1};
        const bool goes_on = !taken.empty() && taken.back().end == begin &&
                             taken.back().stream == next.stream &&
                             taken.back().is_shared == next.is_shared;
        if (goes_on) {
            taken.back().end = next.end;
        } else {
            taken.push_back(next);
        }
    }
    return taken;
}

// Marks the last requests of a step whose bytes another stream takes first in a next step.
void mark_last(StepPlan& plan, const Pieces& last, const std::vector<Taken>& taken) {
    for (const auto& [begin, piece] : last) {
        const Stream stream = plan.stream[piece.request];
        auto meets = std::ranges::upper_bound(taken, begin, {}, &Taken::end);
        for (; meets != taken.end() && meets->begin < piece.end; ++meets) {
            if (!meets->is_shared && meets->stream == stream) continue;
            plan.handed_over[piece.request] = 1;
            break;
        }
    }
}

bool share_one_stream(const std::vector<StepPlan>& plans) {
    const Stream* one = nullptr;
    for (const StepPlan& plan : plans) {
        for (const Stream& stream : plan.stream) {
            if (one == nullptr) one = &stream;
            if (stream != *one) return false;
        }
    }
    return true;
}

}  // namespace

void mark_hand_overs(std::vector<StepPlan>& plans) {
    for (StepPlan& plan : plans) plan.handed_over.assign(plan.request_count(), 0);
    if (share_one_stream(plans)) return;
    std::vector<Sweep> sweeps;
    for (StepPlan& plan : plans) sweeps.push_back(sweep(plan));
    const std::vector<Taken> taken = taken_first(plans, sweeps);
    for (std::size_t plan = 0; plan < plans.size(); ++plan) {
        mark_last(plans[plan], sweeps[plan].last, taken);
    }
}

}  // namespace gapless::runtime
