#include "allocator/book.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "allocator/block.h"

namespace gapless::runtime {

namespace {

// Past segments by which the kinds of the next one are ordered. A guess.
constexpr std::size_t kKeptHistory = 64;
// Requests between two searches in all other kinds: the wait doubles up to the limit. Guesses.
constexpr std::int64_t kFirstForeignWait = 4, kLongestForeignWait = 512;

// See Note [Steps that grow]. The largest stretch of the arena in one step, a guess; and a factor
// for the rounding up of sizes.
constexpr double kMostStretch = 2, kSpare = 1.001;

// See Note [Steps that are unlike all]. Hints end after kFewMissed occupied places plus
// 1/kMissedShare of the requests of the longest kind. Guesses.
constexpr std::size_t kMissedShare = 32;
constexpr std::int64_t kFewMissed = 16;

std::vector<std::int32_t> placed_by_offset(const KindPlan& kind) {
    std::vector<std::int32_t> slots(kind.slot_count());
    std::iota(slots.begin(), slots.end(), 0);
    std::erase_if(slots, [&](std::int32_t slot) { return kind.offset[slot] == kNoPlace; });
    std::ranges::sort(slots, {}, [&](std::int32_t slot) { return kind.offset[slot]; });
    return slots;
}

}  // namespace

Book::Book(std::vector<KindPlan> kinds, std::size_t arena_bytes)
    : kinds_(std::move(kinds)), arena_bytes_(arena_bytes) {
    require_kinds(kinds_, arena_bytes);
    std::map<Stream, std::int32_t> numbers;
    std::vector<std::vector<std::int32_t>> streams;
    std::size_t longest = 0;
    for (const KindPlan& kind : kinds_) {
        longest = std::max(longest, kind.slot_count());
        std::vector<std::int32_t>& its = streams.emplace_back();
        its.reserve(kind.slot_count());
        for (const Stream name : kind.stream) {
            const auto [found, added] =
                numbers.try_emplace(name, static_cast<std::int32_t>(numbers.size()));
            if (added) {
                names_.push_back(name);
                bound_.push_back(name < kFirstRole);
            }
            its.push_back(found->second);
        }
    }
    most_missed_ = kFewMissed + static_cast<std::int64_t>(longest / kMissedShare);
    handles_ = names_;
    progress_.reserve(kinds_.size());
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        progress_.emplace_back(kinds_[kind], streams[kind], names_.size());
        by_offset_.push_back(placed_by_offset(kinds_[kind]));
    }
    following_.resize(kinds_.size());
    candidates_.reserve(kinds_.size());
    requests_.reserve(longest + 1);
    history_.reserve(kKeptHistory + 1);
    begin_step(kBetweenSteps);
}

void Book::begin_step(std::int32_t label) {
    require_label(label);
    label_ = label;
    current_ = -1;
    end_ = {};
    requests_.clear();
    request_count_ = 0;
    stretch_ = 1;
    is_size_seen_ = false;
    next_foreign_ = 0;
    foreign_wait_ = kFirstForeignWait;
    candidates_.clear();
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        if (kinds_[kind].label != label || kinds_[kind].slot_count() == 0) continue;
        candidates_.push_back(static_cast<std::int32_t>(kind));
        progress_[kind].begin_step();
        following_[kind] = {};
    }
    if (candidates_.size() > 1) order_candidates();
}

// The likeliest kind is the one that followed the longest sequence of kinds equal to the last ones.
// Ties go to the more recent one.
void Book::order_candidates() {
    std::vector<std::int32_t> came;
    for (const auto& [label, kind] : history_) {
        if (label == label_) came.push_back(kind);
    }
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> likelihood(kinds_.size(), {-1, -1});
    for (std::size_t at = 0; at < came.size(); ++at) {
        if (came[at] < 0) continue;
        const auto before = came.rend() - static_cast<std::ptrdiff_t>(at);
        const auto differ = std::mismatch(before, came.rend(), came.rbegin(), came.rend());
        auto& its = likelihood[came[at]];
        its = std::max(its, {differ.first - before, static_cast<std::ptrdiff_t>(at)});
    }
    std::ranges::stable_sort(candidates_, std::greater{},
                             [&](std::int32_t kind) { return likelihood[kind]; });
}

Book::Place Book::request(Stream handle, std::size_t bytes) {
    ++request_count_;
    if (candidates_.empty() || is_given_up()) {
        ++end_.unexpected;
        return {};
    }
    const auto size = static_cast<std::int64_t>(
        std::min(bytes, static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())));
    const Request request{stream_of(handle, size), size};
    // A step with one request more than the longest kind matches no kind, so no more need be kept.
    if (requests_.size() < requests_.capacity()) requests_.push_back(request);
    if (current_ < 0) choose(request);
    if (request.stream < 0) return refuse(request, handle);
    std::int32_t slot = progress_[current_].take_next(request.stream, size);
    if (slot < 0) return find(request, handle);
    if (!is_size_seen_ && !is_seen(current_, slot, size)) slot = take_where_seen(request, slot);
    return take(slot, size, handle);
}

bool Book::is_seen(std::int32_t kind, std::int32_t slot, std::int64_t bytes) const {
    return kinds_[kind].least[slot] <= bytes && bytes <= kinds_[kind].most[slot];
}

// The size fits the current kind at another sequence length, but another kind may have had exactly
// this size.
std::int32_t Book::take_where_seen(const Request& request, std::int32_t slot) {
    is_size_seen_ = true;
    for (const std::int32_t kind : candidates_) {
        if (kind == current_ || !follow_all(kind)) continue;
        const std::int32_t other = progress_[kind].last_taken(request.stream);
        if (!is_seen(kind, other, request.bytes)) continue;
        following_[current_].in_order = false;
        current_ = kind;
        return other;
    }
    return slot;
}

std::vector<ArenaRange> Book::needed_places() const {
    std::vector<ArenaRange> places;
    if (candidates_.empty() || is_given_up()) return places;
    const std::int32_t kind = current_ < 0 ? candidates_.front() : current_;
    const std::vector<bool> is_remaining = progress_[kind].remaining();
    for (const std::int32_t slot : by_offset_[kind]) {
        if (!is_remaining[slot]) continue;
        const std::int64_t offset = stretched(kinds_[kind].offset[slot]);
        const auto bytes = stretch_ * static_cast<double>(kinds_[kind].most[slot]);
        const auto begin = static_cast<std::size_t>(offset);
        const std::size_t end = begin + static_cast<std::size_t>(bytes);
        if (!places.empty() && begin <= places.back().end) {
            places.back().end = std::max(places.back().end, end);
        } else {
            places.push_back({begin, end});
        }
    }
    return places;
}

StepEnd Book::end_step() {
    if (current_ >= 0) {
        if (!is_complete(current_)) {
            const auto complete = std::ranges::find_if(
                candidates_, [&](std::int32_t kind) { return is_complete(kind); });
            if (complete != candidates_.end()) current_ = *complete;
        }
        end_.missing = progress_[current_].missing();
        const std::int64_t found = end_.planned + end_.escaping + end_.grown;
        end_.kind = found > end_.unexpected + end_.missing ? current_ : -1;
    }
    if (history_.size() == kKeptHistory) history_.erase(history_.begin());
    history_.emplace_back(label_, end_.kind);
    end_.planned -= end_.in_use;
    const StepEnd end = end_;
    begin_step(kBetweenSteps);
    return end;
}

std::int32_t Book::stream_of(Stream handle, std::int64_t bytes) {
    if (last_stream_ < handles_.size() && bound_[last_stream_] &&
        handles_[last_stream_] == handle) {
        return static_cast<std::int32_t>(last_stream_);
    }
    for (std::size_t stream = 0; stream < handles_.size(); ++stream) {
        if (!bound_[stream] || handles_[stream] != handle) continue;
        last_stream_ = stream;
        return static_cast<std::int32_t>(stream);
    }
    return bind_role(handle, bytes);
}

// Binds a stream to a numbered stream of the plan's file that is still unbound and expects such
// bytes.
std::int32_t Book::bind_role(Stream handle, std::int64_t bytes) {
    for (std::size_t stream = 0; stream < handles_.size(); ++stream) {
        if (bound_[stream]) continue;
        const bool fits = std::ranges::any_of(candidates_, [&](std::int32_t kind) {
            return progress_[kind].unlikeness(stream, bytes) == 1;
        });
        if (!fits) continue;
        bound_[stream] = true;
        handles_[stream] = handle;
        return static_cast<std::int32_t>(stream);
    }
    return -1;
}

void Book::choose(const Request& first) {
    current_ = candidates_.front();
    if (first.stream < 0) return;
    double best = std::numeric_limits<double>::infinity();
    for (const std::int32_t kind : candidates_) {
        const double unlikeness = progress_[kind].unlikeness(first.stream, first.bytes);
        if (unlikeness >= best) continue;
        best = unlikeness;
        current_ = kind;
    }
    following_[current_].in_order = true;
}

// Compares a kind other than the current one with the requests that it has not seen yet.
bool Book::follow_all(std::int32_t kind) {
    Following& following = following_[kind];
    if (request_count_ > static_cast<std::int64_t>(requests_.size())) following.in_order = false;
    while (following.in_order && following.checked < requests_.size()) {
        const Request& request = requests_[following.checked++];
        following.in_order =
            request.stream >= 0 && progress_[kind].follow(request.stream, request.bytes);
    }
    return following.in_order;
}

// Returns the kind that fits all requests best, or -1 if only the current kind is left.
std::int32_t Book::follower() {
    std::int32_t best = -1;
    for (const std::int32_t kind : candidates_) {
        if (kind == current_ || !follow_all(kind)) continue;
        if (best < 0 || progress_[kind].unlikely_count() < progress_[best].unlikely_count()) {
            best = kind;
        }
    }
    return best;
}

Book::Place Book::find(const Request& request, Stream handle) {
    KindProgress* progress = &progress_[current_];
    if (candidates_.size() > 1) {
        const std::int32_t kind = follower();
        // If the request may still be the current kind's next one, the other kind must fit better.
        const bool may_be = progress->is_loosely_next(request.stream, request.bytes);
        const std::int64_t most = progress->unlikely_count() + !may_be;
        const bool is_over = progress->expected(request.stream) < 0;
        if (kind >= 0 && (is_over || progress_[kind].unlikely_count() <= most)) {
            following_[current_].in_order = false;
            current_ = kind;
            return take(progress_[kind].last_taken(request.stream), request.bytes, handle);
        }
    }
    following_[current_].in_order = false;
    std::int32_t slot = progress->take_found(request.stream);
    if (slot < 0) slot = progress->take_loosely(request.stream, request.bytes);
    if (slot >= 0) return take(slot, request.bytes, handle);
    if (progress->is_lost(request.stream) && request_count_ >= next_foreign_) {
        next_foreign_ = request_count_ + foreign_wait_;
        foreign_wait_ = std::min(2 * foreign_wait_, kLongestForeignWait);
        for (const std::int32_t kind : candidates_) {
            if (kind == current_) continue;
            slot = progress_[kind].take_over(request.stream, *progress, request_count_);
            if (slot < 0) continue;
            following_[kind].in_order = false;
            current_ = kind;
            return take(slot, request.bytes, handle);
        }
    }
    progress->pass(request.stream);
    return refuse(request, handle);
}

Book::Place Book::take(std::int32_t slot, std::int64_t bytes, Stream handle) {
    const KindPlan& kind = kinds_[current_];
    Place place{current_,    slot, kind.offset[slot], kind.spare[slot], kind.handed_over[slot] != 0,
                std::nullopt};
    if (place.offset == kNoPlace) {
        ++end_.escaping;
        return place;
    }
    const auto most = static_cast<double>(kind.most[slot]), needed = static_cast<double>(bytes);
    const bool is_grown = bytes > kind.most[slot];
    if (is_grown) {
        ++end_.grown;
        if (stretch_ == 1 && needed <= kMostStretch * most) stretch_ = kSpare * needed / most;
    } else {
        ++end_.planned;
    }
    if (stretch_ > 1) {
        place.offset = stretched(place.offset);
        if (place.spare != kNoPlace) place.spare = stretched(place.spare);
    }
    if (is_grown && needed > stretch_ * most) {
        place.offset = place.spare = kNoPlace;
        place.handed_over = false;
        place.mismatch = Mismatch{MismatchKind::grown,
                                  0,
                                  handle,
                                  static_cast<std::size_t>(bytes),
                                  slot,
                                  kind.most[slot],
                                  -1,
                                  -1,
                                  current_};
    }
    return place;
}

std::int64_t Book::stretched(std::int64_t offset) const {
    const auto blocks = static_cast<double>(offset) / static_cast<double>(kBlockAlignment);
    return static_cast<std::int64_t>(std::ceil(stretch_ * blocks)) *
           static_cast<std::int64_t>(kBlockAlignment);
}

Book::Place Book::refuse(const Request& request, Stream handle) {
    ++end_.unexpected;
    Place place;
    Mismatch& mismatch = place.mismatch.emplace();
    mismatch.stream = handle;
    mismatch.bytes = static_cast<std::size_t>(request.bytes);
    mismatch.step_kind = current_;
    if (request.stream < 0 || !progress_[current_].has(request.stream)) {
        mismatch.kind = MismatchKind::stream;
        return place;
    }
    const std::int32_t expected = progress_[current_].expected(request.stream);
    mismatch.kind = expected < 0 ? MismatchKind::extra : MismatchKind::size;
    mismatch.request =
        expected < 0 ? static_cast<std::int64_t>(kinds_[current_].slot_count()) : expected;
    if (expected >= 0) mismatch.expected_bytes = kinds_[current_].most[expected];
    return place;
}

// Returns true if the step made all requests of a kind and no others.
bool Book::is_complete(std::int32_t kind) {
    if (kind == current_) return end_.unexpected == 0 && progress_[kind].missing() == 0;
    return static_cast<std::int64_t>(progress_[kind].slot_count()) == request_count_ &&
           follow_all(kind);
}

}  // namespace gapless::runtime
