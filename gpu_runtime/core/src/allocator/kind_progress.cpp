#include "allocator/kind_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace gapless::runtime {

namespace {

// Requests between the expected position and the farthest position searched. A guess.
constexpr std::int32_t kReach = 4096;
// With other sizes for all slots: the distance searched, in requests, from where the step would be
// if every request had come; and the requests in a row that must fit. Guesses.
constexpr std::int32_t kScaledReach = 16;
constexpr std::size_t kScaledRun = 5;
// Requests in a row that must fit: at a slot that varies whose size was not likely, and in a kind
// that was not a candidate. kLooseBad is the badness from which a loose slot is searched for.
// Guesses.
constexpr std::size_t kLooseRun = 3, kForeignRun = 6;
constexpr std::int32_t kLooseBad = 3;
// At most this many requests pass between two searches that find nothing. A guess.
constexpr std::int32_t kLongestWait = 8;
// A size is likely if it differs from the expected size by at most this share plus these bytes.
// Guesses.
constexpr double kTolerance = 0.01, kSlack = 64;
// Requests below this many bytes do not tell that all sizes changed. A guess.
constexpr std::int64_t kTellingBytes = 8192;
// A slot loosely accepts sizes up to this factor outside of the sizes seen. The first slot that
// varies accepts more, because it tells the scale. Guesses.
constexpr double kLooseness = 4, kFirstLooseness = 64;
// A slot tells the scale if its largest size exceeds its smallest by this share. A guess.
constexpr double kTellingWidth = 1.0 / 16;

bool is_near(double bytes, double expected) {
    return std::abs(bytes - expected) <= kTolerance * std::abs(expected) + kSlack;
}

// Requests in a row that must fit at a distance from the expected position. Guesses.
std::size_t enough_at(std::int32_t distance) {
    if (distance <= 1) return 1;
    if (distance <= 8) return 2;
    if (distance <= 64) return 3;
    return distance <= 512 ? 4 : 5;
}

}  // namespace

KindProgress::KindProgress(const KindPlan& plan, const std::vector<std::int32_t>& stream,
                           std::size_t streams)
    : slot_(plan.slot_count()), lanes_(streams) {
    least_.reserve(slot_.size());
    most_.reserve(slot_.size());
    std::iota(slot_.begin(), slot_.end(), 0);
    std::ranges::stable_sort(slot_, {}, [&](std::int32_t slot) { return stream[slot]; });
    for (const std::int32_t slot : slot_) {
        least_.push_back(plan.least[slot]);
        most_.push_back(plan.most[slot]);
        ++lanes_[stream[slot]].last;
    }
    std::int32_t first = 0;
    for (Lane& lane : lanes_) {
        lane.first = std::exchange(first, first + lane.last);
        lane.last = first;
    }
    begin_step();
}

void KindProgress::begin_step() {
    for (Lane& lane : lanes_) {
        const auto [first, last] = std::pair{lane.first, lane.last};
        lane = Lane{};
        lane.first = lane.next = first;
        lane.last = last;
    }
    scale_known_ = false;
    scale_ = scale_width_ = 0;
    witness_ = std::numeric_limits<double>::infinity();
    ratio_ = 1;
    unlikely_ = 0;
}

double KindProgress::unlikeness(std::size_t stream, std::int64_t bytes) const {
    const Lane& lane = lanes_[stream];
    if (lane.first == lane.last) return std::numeric_limits<double>::infinity();
    const auto least = static_cast<double>(least_[lane.first]);
    const auto most = static_cast<double>(most_[lane.first]);
    const auto found = static_cast<double>(bytes);
    return std::max({1.0, found / most, least / found});
}

bool KindProgress::follow(std::size_t stream, std::int64_t bytes) {
    Lane& lane = lanes_[stream];
    note(lane, bytes);
    if (lane.next == lane.last) return false;
    const bool is_next_likely = is_likely(lane.next, bytes);
    if (!is_next_likely && !is_loose(lane.next, bytes)) return false;
    if (is_next_likely || !scale_known_) learn_scale(lane.next, bytes);
    unlikely_ += !is_next_likely;
    ++lane.next;
    return true;
}

std::int32_t KindProgress::take_next(std::size_t stream, std::int64_t bytes) {
    Lane& lane = lanes_[stream];
    note(lane, bytes);
    if (lane.next == lane.last || !is_likely(lane.next, bytes)) {
        lane.bad = std::min(lane.bad + 2, kWorst);
        return -1;
    }
    lane.bad = std::max(lane.bad - 1, 0);
    lane.passed = lane.failed = lane.wait = 0;
    learn_scale(lane.next, bytes);
    return slot_[lane.next++];
}

std::int32_t KindProgress::take_found(std::size_t stream) {
    Lane& lane = lanes_[stream];
    if (lane.first == lane.last) return -1;
    const bool at_loose = is_loosely_next(stream, recent(lane, 0));
    if (at_loose && lane.bad < kLooseBad) return -1;
    if (lane.wait > 0) {
        --lane.wait;
        return -1;
    }
    std::int32_t found = find_near(lane, at_loose);
    if (found < 0) found = find_scaled(lane);
    if (found < 0) {
        // The first failed searches cause no wait: one more request may complete the row.
        lane.failed = std::min(lane.failed + 1, 2 * kLongestWait);
        lane.wait = std::max(0, lane.failed - kLongestWait);
        return -1;
    }
    return move(lane, found);
}

std::int32_t KindProgress::take_loosely(std::size_t stream, std::int64_t bytes) {
    Lane& lane = lanes_[stream];
    if (!is_loosely_next(stream, bytes)) return -1;
    ++unlikely_;
    lane.passed = 0;
    // Two loosely taken slots in a row that tell the same new scale prove another sequence. One
    // alone may be a request that is not in the plan.
    if (const std::optional<double> told = scale_told(lane.next, bytes)) {
        if (std::abs(*told - witness_) <= kTolerance * std::max(1.0, std::abs(*told))) {
            scale_known_ = false;
            scale_width_ = 0;
        }
        witness_ = *told;
    }
    if (!scale_known_) learn_scale(lane.next, bytes);
    return slot_[lane.next++];
}

bool KindProgress::is_loosely_next(std::size_t stream, std::int64_t bytes) const {
    const Lane& lane = lanes_[stream];
    return lane.next < lane.last && is_loose(lane.next, bytes);
}

std::int32_t KindProgress::take_over(std::size_t stream, const KindProgress& other,
                                     std::int64_t progress) {
    Lane& lane = lanes_[stream];
    const Lane& recent_lane = other.lanes_[stream];
    std::int32_t best = -1;
    std::int64_t best_distance = 0;
    for (std::int32_t position = lane.first; position < lane.last; ++position) {
        if (run_at(recent_lane, lane, position, kForeignRun) < kForeignRun) continue;
        const std::int64_t distance = std::abs(slot_[position] - progress);
        if (best >= 0 && distance >= best_distance) continue;
        best = position;
        best_distance = distance;
    }
    if (best < 0) return -1;
    const std::int32_t slot = slot_[best];
    for (std::size_t s = 0; s < lanes_.size(); ++s) {
        Lane& its = lanes_[s];
        const auto begin = slot_.begin() + its.first, end = slot_.begin() + its.last;
        its.next = static_cast<std::int32_t>(std::lower_bound(begin, end, slot) - slot_.begin());
        its.recent = other.lanes_[s].recent;
        its.recent_count = other.lanes_[s].recent_count;
        its.skipped = 0;
        its.bad = its.passed = its.failed = its.wait = 0;
    }
    ++lane.next;
    return slot;
}

std::int32_t KindProgress::expected(std::size_t stream) const {
    const Lane& lane = lanes_[stream];
    return lane.next < lane.last ? slot_[lane.next] : -1;
}

std::vector<bool> KindProgress::remaining() const {
    std::vector<bool> is_remaining(slot_.size());
    for (const Lane& lane : lanes_) {
        for (std::int32_t position = lane.next; position < lane.last; ++position) {
            is_remaining[slot_[position]] = true;
        }
    }
    return is_remaining;
}

std::int64_t KindProgress::missing() const {
    std::int64_t missing = 0;
    for (const Lane& lane : lanes_) missing += lane.skipped + (lane.last - lane.next);
    return missing;
}

bool KindProgress::is_likely(std::int32_t position, std::int64_t bytes) const {
    if (bytes == most_[position]) return true;
    if (varies(position)) return is_on_curve(position, bytes);
    return ratio_ != 1 &&
           is_near(static_cast<double>(bytes), ratio_ * static_cast<double>(most_[position]));
}

bool KindProgress::is_on_curve(std::int32_t position, std::int64_t bytes) const {
    const auto least = static_cast<double>(least_[position]);
    const auto most = static_cast<double>(most_[position]);
    const auto found = static_cast<double>(bytes);
    if (!scale_known_) return found * 2 >= least && found <= most * 2;
    if (is_near(found, least + scale_ * (most - least))) return true;
    // Attention scores grow with the square of the sequence length.
    const double root = std::sqrt(least) + scale_ * (std::sqrt(most) - std::sqrt(least));
    return root > 0 && is_near(found, root * root);
}

bool KindProgress::is_loose(std::int32_t position, std::int64_t bytes) const {
    if (!varies(position) && ratio_ == 1) return false;
    const auto found = static_cast<double>(bytes);
    const bool is_first = varies(position) && !scale_known_;
    const double looseness = is_first ? kFirstLooseness : kLooseness;
    return found * looseness >= static_cast<double>(least_[position]) &&
           found <= static_cast<double>(most_[position]) * looseness;
}

// Returns where between least and most a size lies, if the slot varies enough to tell.
std::optional<double> KindProgress::scale_told(std::int32_t position, std::int64_t bytes) const {
    const auto least = static_cast<double>(least_[position]);
    const double width = static_cast<double>(most_[position]) - least;
    if (width < kTellingWidth * least) return std::nullopt;
    return (static_cast<double>(bytes) - least) / width;
}

void KindProgress::learn_scale(std::int32_t position, std::int64_t bytes) {
    const std::optional<double> told = scale_told(position, bytes);
    if (!told) return;
    const double width = static_cast<double>(most_[position] - least_[position]) /
                         static_cast<double>(least_[position]);
    if (scale_known_ && width <= scale_width_) return;
    scale_ = *told;
    scale_width_ = width;
    scale_known_ = true;
}

void KindProgress::note(Lane& lane, std::int64_t bytes) {
    lane.recent[lane.recent_count++ % kRecent] = bytes;
}

std::int64_t KindProgress::recent(const Lane& lane, std::size_t back) const {
    return lane.recent[(lane.recent_count - 1 - back) % kRecent];
}

// Number of recent requests of `lane` that match consecutive positions of `of`, ending at
// `position`.
std::size_t KindProgress::run_at(const Lane& lane, const Lane& of, std::int32_t position,
                                 std::size_t enough) const {
    const std::size_t known = std::min({enough, lane.recent_count, kRecent});
    std::size_t run = 0;
    while (run < known && position >= of.first) {
        const std::int64_t bytes = recent(lane, run);
        // While the scale is unknown, a slot that varies matches only within the sizes seen.
        const bool tells = scale_known_ || !varies(position) ||
                           (least_[position] <= bytes && bytes <= most_[position]);
        if (!tells || !is_likely(position, bytes)) break;
        ++run;
        --position;
    }
    return run;
}

std::int32_t KindProgress::find_near(const Lane& lane, bool at_loose) const {
    for (std::int32_t distance = 1; distance <= kReach; ++distance) {
        const bool above = lane.next + distance < lane.last;
        const bool below = lane.next - distance >= lane.first;
        if (!above && !below) break;
        const std::size_t enough = std::max(enough_at(distance), at_loose ? kLooseRun : 1);
        for (const std::int32_t position : {lane.next + distance, lane.next - distance}) {
            if (position < lane.first || position >= lane.last) continue;
            if (run_at(lane, lane, position, enough) >= enough) return position;
        }
    }
    return -1;
}

// Searches as if every request had come at another sequence length: slots that vary have another
// scale, slots that never varied another ratio.
std::int32_t KindProgress::find_scaled(const Lane& lane) {
    const std::int32_t center = lane.next + lane.passed;
    const auto before = std::tuple{scale_, scale_width_, scale_known_, ratio_};
    for (std::int32_t distance = 0; distance <= kScaledReach; ++distance) {
        for (const std::int32_t position : {center - distance, center + distance}) {
            if (position < lane.first || position >= lane.last) continue;
            if (rescale(position, recent(lane, 0)) &&
                run_at(lane, lane, position, kScaledRun) >= kScaledRun) {
                return position;
            }
            std::tie(scale_, scale_width_, scale_known_, ratio_) = before;
        }
    }
    return -1;
}

// Takes a size as evidence of another scale or ratio. Returns false if it is no evidence.
bool KindProgress::rescale(std::int32_t position, std::int64_t bytes) {
    if (varies(position)) {
        const double before = scale_;
        scale_known_ = false;
        scale_width_ = 0;
        learn_scale(position, bytes);
        return scale_known_ && std::abs(scale_ - before) > 0.01;
    }
    const double ratio = static_cast<double>(bytes) / static_cast<double>(most_[position]);
    if (bytes < kTellingBytes || std::abs(ratio - ratio_) < 0.01 || ratio > kLooseness ||
        ratio * kLooseness < 1) {
        return false;
    }
    ratio_ = ratio;
    return true;
}

std::int32_t KindProgress::move(Lane& lane, std::int32_t position) {
    lane.skipped = std::max<std::int64_t>(0, lane.skipped + position - lane.next);
    lane.passed = lane.failed = lane.wait = 0;
    lane.next = position + 1;
    return slot_[position];
}

}  // namespace gapless::runtime
