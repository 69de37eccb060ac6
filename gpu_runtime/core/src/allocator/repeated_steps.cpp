#include "allocator/repeated_steps.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace gapless::runtime {

StepEnd RepeatedSteps::begin_step(std::int32_t label) {
    if (in_step_) throw std::logic_error("a step begins within a step");
    if (label < 0) {
        throw std::invalid_argument("step: a label is at least 0, found " + std::to_string(label));
    }
    const StepEnd between = is_recording_ ? end_record(true) : StepEnd{};
    in_step_ = is_recording_ = true;
    begin_record(label);
    return between;
}

StepEnd RepeatedSteps::end_step(bool completed) {
    if (!in_step_) throw std::logic_error("a step ends that did not begin");
    in_step_ = false;
    const StepEnd end = end_record(completed);
    ++steps_;
    begin_record(kBetween);
    return end;
}

void RepeatedSteps::begin_record(std::int32_t label) {
    running_.label = label;
    running_.requests.clear();
    running_.late_frees = std::exchange(freed_meanwhile_, {});
    end_ = {};
    next_ = 0;
    has_left_ = false;
    followed_ = expected(label);
}

// The plan of the kind that followed the last kind last time. If that kind has none, the plan of
// this label whose kind was seen last; a plan whose kind was not seen yet comes last.
RepeatedSteps::Followed* RepeatedSteps::expected(std::int32_t label) {
    const auto next = followed_by_.find({last_kind_, label});
    Followed* found = nullptr;
    std::int64_t last_seen = -2;
    for (Followed& followed : plans_) {
        const std::int64_t number = followed.plan.kind;
        if (next != followed_by_.end() && number == next->second) return &followed;
        const auto kind = std::ranges::find(kinds_, number, &StepKind::number);
        if (kind == kinds_.end() ? label == kBetween : kind->label != label) continue;
        const std::int64_t seen = kind == kinds_.end() ? -1 : kind->last_seen;
        if (seen <= last_seen) continue;
        last_seen = seen;
        found = &followed;
    }
    return found;
}

RepeatedSteps::Place RepeatedSteps::next(Stream stream, std::size_t bytes) {
    if (!is_following()) return {};
    const std::optional<MismatchKind> differs = mismatch_of(followed_->plan, stream, bytes);
    if (differs && !take_over(stream, bytes)) {
        leave(*differs, stream, bytes);
        return {};
    }
    const StepPlan& plan = followed_->plan;
    const std::size_t request = next_++;
    ++(plan.offset[request] == kNoPlace ? end_.escaping : end_.planned);
    return {plan.offset[request], true, plan.handed_over[request] != 0};
}

// Returns how a plan differs from the next request.
std::optional<MismatchKind> RepeatedSteps::mismatch_of(const StepPlan& plan, Stream stream,
                                                       std::size_t bytes) const {
    if (next_ >= plan.request_count()) return MismatchKind::extra;
    if (plan.stream[next_] != stream) return MismatchKind::stream;
    if (plan.bytes[next_] != static_cast<std::int64_t>(bytes)) return MismatchKind::size;
    return std::nullopt;
}

// Another plan takes over, if it has all requests of this record so far, and the next one.
bool RepeatedSteps::take_over(Stream stream, std::size_t bytes) {
    for (Followed& other : plans_) {
        const StepPlan& plan = other.plan;
        if (mismatch_of(plan, stream, bytes)) continue;
        const auto kind = std::ranges::find(kinds_, plan.kind, &StepKind::number);
        if (kind == kinds_.end() || kind->label != running_.label) continue;
        std::size_t equal = 0;
        while (equal < next_ && plan.stream[equal] == running_.requests[equal].stream &&
               plan.bytes[equal] == running_.requests[equal].bytes) {
            ++equal;
        }
        if (equal < next_) continue;
        followed_ = &other;
        return true;
    }
    return false;
}

void RepeatedSteps::leave_occupied(Stream stream, std::size_t bytes) {
    --next_;
    --end_.planned;
    leave(MismatchKind::in_use, stream, bytes);
}

void RepeatedSteps::leave(MismatchKind kind, Stream stream, std::size_t bytes) {
    const StepPlan& plan = followed_->plan;
    const bool is_over = next_ == plan.request_count();
    mismatch_ = Mismatch{.kind = kind,
                         .step = steps_,
                         .stream = stream,
                         .bytes = bytes,
                         .request = static_cast<std::int64_t>(next_),
                         .expected_bytes = is_over ? -1 : plan.bytes[next_],
                         .step_kind = plan.kind};
    has_left_ = true;
}

void RepeatedSteps::note_request(Block& block) {
    block.record = block.request = -1;
    block.is_in_step = in_step_;
    if (!is_recording_) return;
    block.record = static_cast<std::int64_t>(kind_of_record_.size());
    block.request = static_cast<std::int32_t>(running_.requests.size());
    running_.requests.push_back(
        {.stream = block.stream, .bytes = static_cast<std::int64_t>(block.requested)});
    if (has_left_) ++end_.unexpected;
}

void RepeatedSteps::note_free(const Block& block) {
    if (block.record < 0) return;
    const auto now = static_cast<std::int32_t>(running_.requests.size());
    const auto record = static_cast<std::size_t>(block.record);
    if (record == kind_of_record_.size()) {
        running_.requests[static_cast<std::size_t>(block.request)].end = now;
        return;
    }
    const std::int64_t kind = kind_of_record_[record];
    if (kind >= 0) running_.late_frees.push_back({kind, block.request, now});
}

StepEnd RepeatedSteps::end_record(bool completed) {
    if (running_.label == kBetween && running_.requests.empty()) {
        freed_meanwhile_ = std::move(running_.late_frees);
        followed_ = nullptr;
        return {};
    }
    // A request that failed is not recorded, although the plan expected it.
    end_.is_planned = is_following() && next_ == running_.requests.size() &&
                      next_ == followed_->plan.request_count();
    if (completed) {
        const StepKind& kind = kind_of_step(std::exchange(running_, {}));
        if (end_.is_planned && followed_->plan.kind < 0) followed_->plan.kind = kind.number;
        end_.kind = kind.number;
        followed_by_[{last_kind_, kind.label}] = kind.number;
        last_kind_ = kind.number;
    }
    end_following(completed);
    kind_of_record_.push_back(end_.kind);
    return end_;
}

// Ends the way along a plan, and drops plans that were left too often.
void RepeatedSteps::end_following(bool completed) {
    if (followed_ != nullptr) {
        if (completed) followed_->left = end_.is_planned ? 0 : followed_->left + 1;
        followed_ = nullptr;
    }
    std::erase_if(plans_, [&](const Followed& followed) {
        if (followed.left < kMostLeft) return false;
        for (StepKind& kind : kinds_) {
            if (kind.number != followed.plan.kind) continue;
            kind.seen = 0;
            kind.needed *= 2;
        }
        return true;
    });
    if (plans_.empty()) arena_bytes_ = 0;
}

// Counts a step that has just ended to its kind.
StepKind& RepeatedSteps::kind_of_step(StepKind&& step) {
    step.digest_all();
    auto found = std::ranges::find_if(kinds_, [&](const StepKind& kind) {
        return kind.digest == step.digest && kind.label == step.label &&
               kind.requests.size() == step.requests.size();
    });
    if (found == kinds_.end()) {
        if (kinds_.size() == kMostKinds) {
            kinds_.erase(std::ranges::min_element(kinds_, {}, &StepKind::last_seen));
        }
        step.number = next_number_++;
        step.seen = 0;
        found = kinds_.insert(kinds_.end(), std::move(step));
    } else {
        found->late_frees = std::move(step.late_frees);
    }
    ++found->seen;
    found->last_seen = static_cast<std::int64_t>(kind_of_record_.size());
    return *found;
}

std::vector<StepKind> RepeatedSteps::to_plan() const {
    std::vector<StepKind> repeated;
    bool is_news = false;
    for (const StepKind& kind : kinds_) {
        if (kind.seen < kind.needed || kind.requests.empty()) continue;
        repeated.push_back(kind);
        is_news = is_news || std::ranges::find(plans_, kind.number, [](const Followed& followed) {
                                 return followed.plan.kind;
                             }) == plans_.end();
    }
    if (!is_news) repeated.clear();
    return repeated;
}

void RepeatedSteps::adopt(std::vector<StepPlan> plans, std::size_t arena_bytes) {
    plans_.clear();
    arena_bytes_ = arena_bytes;
    for (StepPlan& plan : plans) {
        std::vector<std::int32_t> placed(plan.request_count());
        std::iota(placed.begin(), placed.end(), 0);
        std::erase_if(placed, [&](std::int32_t each) { return plan.offset[each] == kNoPlace; });
        std::ranges::sort(placed, {}, [&](std::int32_t each) { return plan.offset[each]; });
        plans_.push_back({std::move(plan), std::move(placed)});
    }
    followed_ = is_recording_ && running_.requests.empty() ? expected(kBetween) : nullptr;
}

std::vector<ArenaRange> RepeatedSteps::needed_places() const {
    std::vector<ArenaRange> places;
    if (!is_following()) return places;
    const StepPlan& plan = followed_->plan;
    for (const std::int32_t request : followed_->by_offset) {
        if (static_cast<std::size_t>(request) < next_) continue;
        const auto begin = static_cast<std::size_t>(plan.offset[request]);
        const std::size_t end = begin + static_cast<std::size_t>(plan.bytes[request]);
        if (!places.empty() && begin <= places.back().end) {
            places.back().end = std::max(places.back().end, end);
        } else {
            places.push_back({begin, end});
        }
    }
    return places;
}

}  // namespace gapless::runtime
