#include "allocator/step_plan.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>

#include "allocator/page_heap.h"

namespace gapless::runtime {

namespace {

// So many requests in a row say where a step goes on, and it is looked for so far ahead.
constexpr std::size_t kRecognised = 3;
constexpr std::int32_t kLookAhead = 4096;

std::int64_t padded(std::int64_t bytes) {
    return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(bytes), kBlockAlignment));
}

// Requests are counted in 32 bits; streams are looked for one by one.
constexpr std::size_t kMostRequests = std::size_t{1} << 27;
constexpr std::size_t kMostStreams = std::size_t{1} << 16;

void require_few(const std::vector<StreamPlan>& streams) {
    std::size_t requests = 0;
    for (const StreamPlan& plan : streams) requests += plan.bytes.size();
    if (requests > kMostRequests || streams.size() > kMostStreams) {
        throw std::length_error("plan of a step: at most " + std::to_string(kMostRequests) +
                                " requests of " + std::to_string(kMostStreams) +
                                " streams are taken, found " + std::to_string(requests) + " of " +
                                std::to_string(streams.size()));
    }
    std::set<Stream> seen;
    for (const StreamPlan& plan : streams) {
        if (seen.insert(plan.stream).second) continue;
        throw std::invalid_argument("plan of a step: a stream has one plan, found two of stream " +
                                    std::to_string(plan.stream));
    }
}

// Each stream's, so that messages say whose.
class StreamRules {
  public:
    StreamRules(const StreamPlan& plan, std::size_t arena_bytes)
        : plan_(plan), count_(plan.bytes.size()), arena_bytes_(arena_bytes) {}

    void require() const {
        require_columns();
        for (std::size_t k = 0; k < count_; ++k) require_place(k);
        std::vector<bool> seen(count_);
        for (const std::int32_t request : plan_.freed) {
            if (request < 0 || static_cast<std::size_t>(request) >= count_) {
                refuse("frees are of requests 0 to " + std::to_string(std::int64_t(count_) - 1) +
                       ", found " + std::to_string(request));
            }
            if (seen[request]) {
                refuse("a request is freed once, found " + std::to_string(request) + " twice");
            }
            seen[request] = true;
        }
        require_disjoint();
    }

  private:
    [[noreturn]] void refuse(const std::string& rule) const {
        throw std::invalid_argument("plan of a step: stream " + std::to_string(plan_.stream) +
                                    ": " + rule);
    }

    void require_columns() const {
        if (plan_.offset.size() != count_) {
            refuse("every request has an offset, found " + std::to_string(plan_.offset.size()) +
                   " for " + std::to_string(count_));
        }
        if (plan_.freed_begin.size() != count_ + 1 || plan_.freed_begin.front() != 0 ||
            !std::ranges::is_sorted(plan_.freed_begin) ||
            plan_.freed_begin.back() != static_cast<std::int64_t>(plan_.freed.size())) {
            refuse("frees are listed by the request that they come before, in " +
                   std::to_string(count_ + 1) + " rising numbers from 0 to " +
                   std::to_string(plan_.freed.size()));
        }
    }

    void require_place(std::size_t request) const {
        const std::int64_t bytes = plan_.bytes[request], offset = plan_.offset[request];
        const std::string found = ", found " + std::to_string(bytes) + " at " +
                                  std::to_string(offset) + ", request " + std::to_string(request);
        if (bytes <= 0) refuse("a request has at least one byte" + found);
        if (offset == kEscapes) return;
        if (offset < 0 || offset % static_cast<std::int64_t>(kBlockAlignment) != 0) {
            refuse("offsets are multiples of 512" + found);
        }
        const auto begin = static_cast<std::size_t>(offset);
        const auto needed = static_cast<std::size_t>(padded(bytes));
        if (begin > arena_bytes_ || needed > arena_bytes_ - begin) {
            refuse("requests lie within the arena of " + std::to_string(arena_bytes_) + " bytes" +
                   found);
        }
    }

    // Goes through the step with all that is in use by where it lies. While no two share a byte,
    // who comes can only meet its neighbours.
    void require_disjoint() const {
        std::map<std::int64_t, std::size_t> in_use;
        const auto occupy = [&](std::size_t request) {
            if (plan_.offset[request] == kEscapes) return;
            const auto above = in_use.lower_bound(plan_.offset[request]);
            if (above != in_use.end() && above->first < end_of(request)) {
                refuse_pair(above->second, request);
            }
            if (above != in_use.begin()) {
                const std::size_t below = std::prev(above)->second;
                if (end_of(below) > plan_.offset[request]) refuse_pair(below, request);
            }
            in_use.emplace_hint(above, plan_.offset[request], request);
        };
        // What is freed in the step after lies there when a step begins.
        for (std::size_t k = 1; k < count_; ++k) {
            for (const std::int32_t request : freed_before(k)) {
                if (static_cast<std::size_t>(request) >= k) occupy(request);
            }
        }
        for (std::size_t k = 0; k < count_; ++k) {
            for (const std::int32_t request : freed_before(k)) {
                const auto found = in_use.find(plan_.offset[request]);
                if (found != in_use.end() && found->second == static_cast<std::size_t>(request)) {
                    in_use.erase(found);
                }
            }
            occupy(k);
        }
    }

    std::span<const std::int32_t> freed_before(std::size_t request) const {
        return {plan_.freed.begin() + plan_.freed_begin[request],
                plan_.freed.begin() + plan_.freed_begin[request + 1]};
    }

    std::int64_t end_of(std::size_t request) const {
        return plan_.offset[request] + padded(plan_.bytes[request]);
    }

    [[noreturn]] void refuse_pair(std::size_t one, std::size_t other) const {
        const auto place = [&](std::size_t request) {
            return std::to_string(request) + " at [" + std::to_string(plan_.offset[request]) +
                   ", " + std::to_string(end_of(request)) + ")";
        };
        refuse("requests in use at one time share no byte, found requests " +
               place(std::min(one, other)) + " and " + place(std::max(one, other)));
    }

    const StreamPlan& plan_;
    const std::size_t count_, arena_bytes_;
};

struct Part {
    Stream stream = 0;
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
};

// Which part of the arena the requests of a stream lie in.
Part part_of(const StreamPlan& plan) {
    Part part{plan.stream};
    for (std::size_t k = 0; k < plan.bytes.size(); ++k) {
        if (plan.offset[k] == kEscapes) continue;
        part.begin = std::min(part.begin, plan.offset[k]);
        part.end = std::max(part.end, plan.offset[k] + padded(plan.bytes[k]));
    }
    return part;
}

void require_parts(const std::vector<StreamPlan>& streams) {
    std::vector<Part> parts;
    for (const StreamPlan& plan : streams) parts.push_back(part_of(plan));
    std::ranges::sort(parts, {}, &Part::begin);
    for (std::size_t i = 1; i < parts.size(); ++i) {
        if (parts[i - 1].end <= parts[i].begin) continue;
        throw std::invalid_argument(
            "plan of a step: each stream has a part of the arena of its own, found stream " +
            std::to_string(parts[i - 1].stream) + " up to " + std::to_string(parts[i - 1].end) +
            " and stream " + std::to_string(parts[i].stream) + " from " +
            std::to_string(parts[i].begin));
    }
}

}  // namespace

StepPlan::StepPlan(std::vector<StreamPlan> streams, std::size_t arena_bytes)
    : arena_bytes_(arena_bytes) {
    if (arena_bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    require_few(streams);
    for (const StreamPlan& plan : streams) StreamRules(plan, arena_bytes).require();
    require_parts(streams);
    for (const StreamPlan& plan : streams) {
        const auto first = static_cast<std::int32_t>(bytes_.size());
        const auto count = static_cast<std::int32_t>(plan.bytes.size());
        streams_.push_back({plan.stream, first, first + count, first, first, {}, 0});
        bytes_.insert(bytes_.end(), plan.bytes.begin(), plan.bytes.end());
        offset_.insert(offset_.end(), plan.offset.begin(), plan.offset.end());
        wraps_.resize(bytes_.size());
        for (std::int32_t k = 0; k < count; ++k) {
            freed_begin_.push_back(static_cast<std::int32_t>(freed_.size()));
            for (auto i = plan.freed_begin[k]; i < plan.freed_begin[k + 1]; ++i) {
                freed_.push_back(first + plan.freed[i]);
                if (plan.freed[i] >= k) wraps_[first + plan.freed[i]] = 1;
            }
        }
    }
    freed_begin_.push_back(static_cast<std::int32_t>(freed_.size()));
    in_use_.resize(bytes_.size());
    build_places();
}

void StepPlan::begin_step() {
    for (StreamProgress& progress : streams_) {
        progress.next = progress.settled = progress.first;
        progress.unexpected.clear();
        progress.missing = 0;
    }
    if (in_use_count_ == 0) return;
    for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(bytes_.size()); ++slot) {
        if (in_use_[slot] && !wraps_[slot]) mark_overdue(slot);
    }
}

std::int64_t StepPlan::end_step() {
    std::int64_t missing = 0;
    for (const StreamProgress& progress : streams_)
        missing += progress.missing + (progress.last - progress.next);
    return missing;
}

Decision StepPlan::request(Stream stream, std::size_t bytes) {
    StreamProgress* progress = progress_of(stream);
    if (progress == nullptr) {
        return {Decision::Kind::fallback, -1, Mismatch{MismatchKind::stream, 0, stream, bytes}};
    }
    if (progress->next < progress->last &&
        bytes_[progress->next] == static_cast<std::int64_t>(bytes)) {
        progress->unexpected.clear();
        return take(*progress, progress->next);
    }
    return resume(*progress, bytes);
}

std::int32_t StepPlan::slot_at(std::uint64_t offset) const {
    for (std::size_t bucket = bucket_of(offset); place_offset_[bucket] >= 0;
         bucket = (bucket + 1) & (place_offset_.size() - 1)) {
        if (place_offset_[bucket] == static_cast<std::int64_t>(offset)) return place_slot_[bucket];
    }
    return -1;
}

void StepPlan::release(std::int32_t slot) {
    in_use_[slot] = 0;
    place_slot_[place_of_slot_[slot]] = -1;
    --in_use_count_;
    if (!overdue_.empty()) overdue_.erase(end_of(slot));
}

std::int64_t StepPlan::end_of(std::int32_t slot) const {
    return offset_[slot] + padded(bytes_[slot]);
}

Stream StepPlan::stream_of(std::int32_t slot) const {
    const auto progress =
        std::ranges::find_if(streams_, [&](const StreamProgress& its) { return slot < its.last; });
    return progress->stream;
}

StepPlan::StreamProgress* StepPlan::progress_of(Stream stream) {
    for (StreamProgress& progress : streams_) {
        if (progress.stream == stream) return &progress;
    }
    return nullptr;
}

Decision StepPlan::take(StreamProgress& progress, std::int32_t slot) {
    pass_frees(progress, slot);
    progress.next = slot + 1;
    if (offset_[slot] == kEscapes) return {Decision::Kind::escapes, slot, std::nullopt};
    if (!overdue_.empty()) {
        if (const std::int32_t other = overdue_in_the_way(slot); other >= 0) {
            return {Decision::Kind::fallback, -1,
                    Mismatch{MismatchKind::in_use, 0, progress.stream,
                             static_cast<std::size_t>(bytes_[slot]), slot - progress.first,
                             bytes_[slot], other - progress.first}};
        }
    }
    in_use_[slot] = 1;
    ++in_use_count_;
    place_slot_[place_of_slot_[slot]] = slot;
    return {Decision::Kind::planned, slot, std::nullopt};
}

// A request that is not the expected one: an added one, or one after some that did not come.
Decision StepPlan::resume(StreamProgress& progress, std::size_t bytes) {
    if (progress.next == progress.last) {
        return {Decision::Kind::fallback, -1,
                Mismatch{MismatchKind::extra, 0, progress.stream, bytes,
                         progress.last - progress.first}};
    }
    const Mismatch mismatch{
        MismatchKind::size,   0, progress.stream, bytes, progress.next - progress.first,
        bytes_[progress.next]};
    if (progress.unexpected.size() == kRecognised)
        progress.unexpected.erase(progress.unexpected.begin());
    progress.unexpected.push_back(static_cast<std::int64_t>(bytes));
    const std::int32_t found = find_recent(progress);
    if (found < 0) return {Decision::Kind::fallback, -1, mismatch};
    progress.missing += found - progress.next;
    progress.unexpected.clear();
    return take(progress, found);
}

// Slot of the last of the recent requests, where they are found in a row; -1 where they are not.
std::int32_t StepPlan::find_recent(const StreamProgress& progress) const {
    if (progress.unexpected.size() < kRecognised) return -1;
    const auto begin = bytes_.begin() + progress.next;
    const auto end = bytes_.begin() + std::min(progress.last, progress.next + kLookAhead);
    const auto found =
        std::search(begin, end, progress.unexpected.begin(), progress.unexpected.end());
    if (found == end) return -1;
    return static_cast<std::int32_t>(found - bytes_.begin() + kRecognised - 1);
}

void StepPlan::pass_frees(StreamProgress& progress, std::int32_t slot) {
    for (; progress.settled <= slot; ++progress.settled) {
        for (auto i = freed_begin_[progress.settled]; i < freed_begin_[progress.settled + 1]; ++i) {
            if (in_use_[freed_[i]]) mark_overdue(freed_[i]);
        }
    }
}

void StepPlan::mark_overdue(std::int32_t slot) { overdue_.emplace(end_of(slot), slot); }

std::int32_t StepPlan::overdue_in_the_way(std::int32_t slot) const {
    const auto other = overdue_.upper_bound(offset_[slot]);
    return other != overdue_.end() && offset_[other->second] < end_of(slot) ? other->second : -1;
}

std::size_t StepPlan::bucket_of(std::uint64_t offset) const {
    // Fibonacci hashing: the high bits of the product.
    return static_cast<std::size_t>((offset / kBlockAlignment * 0x9E3779B97F4A7C15u) >>
                                    place_shift_);
}

void StepPlan::build_places() {
    const std::size_t buckets = std::bit_ceil(2 * bytes_.size() + 2);
    place_shift_ = 64 - std::countr_zero(buckets);
    place_offset_.assign(buckets, -1);
    place_slot_.assign(buckets, -1);
    place_of_slot_.assign(bytes_.size(), 0);
    for (std::size_t slot = 0; slot < bytes_.size(); ++slot) {
        if (offset_[slot] == kEscapes) continue;
        std::size_t bucket = bucket_of(static_cast<std::uint64_t>(offset_[slot]));
        while (place_offset_[bucket] >= 0 && place_offset_[bucket] != offset_[slot]) {
            bucket = (bucket + 1) & (buckets - 1);
        }
        place_offset_[bucket] = offset_[slot];
        place_of_slot_[slot] = static_cast<std::uint32_t>(bucket);
    }
}

}  // namespace gapless::runtime
