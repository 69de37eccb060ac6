#include "allocator/repeated_steps.h"

#include <algorithm>
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
    followed_ = turn_of(expected_kind(label));
}

// The kind that followed the last kinds last time. If it has no plan, the kind of this label that
// was seen last and has one; a plan whose kind was not seen yet comes last.
std::optional<std::int64_t> RepeatedSteps::expected_kind(std::int32_t label) const {
    const auto next = followed_by_.find({last_step_, last_between_, label});
    std::optional<std::int64_t> found;
    std::int64_t last_seen = -2;
    for (const Followed& followed : plans_) {
        const std::int64_t number = followed.plan.kind;
        if (next != followed_by_.end() && number == next->second) return number;
        const auto kind = std::ranges::find(kinds_, number, &StepKind::number);
        if (kind == kinds_.end() ? label == kBetween : kind->label != label) continue;
        const std::int64_t seen = kind == kinds_.end() ? -1 : kind->last_seen;
        if (seen <= last_seen) continue;
        last_seen = seen;
        found = number;
    }
    return found;
}

// Of the plans of a kind, the one whose last turn is longest ago; null if it has none.
RepeatedSteps::Followed* RepeatedSteps::turn_of(std::optional<std::int64_t> kind) {
    Followed* found = nullptr;
    for (Followed& followed : plans_) {
        if (kind != followed.plan.kind) continue;
        if (found == nullptr || followed.last_turn < found->last_turn) found = &followed;
    }
    return found;
}

StepKind* RepeatedSteps::find_kind(std::int64_t number) {
    const auto found = std::ranges::find(kinds_, number, &StepKind::number);
    return found == kinds_.end() ? nullptr : &*found;
}

RepeatedSteps::Place RepeatedSteps::next(Stream stream, std::size_t bytes) {
    if (!is_following()) return {};
    const std::optional<MismatchKind> differs = mismatch_of(followed_->plan, stream, bytes);
    if (differs && !take_over(stream, bytes)) {
        note_mismatch(*differs, next_, stream, bytes);
        has_left_ = true;
        return {};
    }
    const StepPlan& plan = followed_->plan;
    const std::size_t request = next_++;
    ++(plan.offset[request] == kNoPlace ? end_.escaping : end_.planned);
    return {plan.offset[request], plan.beside[request], plan.handed_over[request] != 0};
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
        const StepKind* const kind = find_kind(plan.kind);
        if (kind == nullptr || kind->label != running_.label) continue;
        std::size_t equal = 0;
        while (equal < next_ && plan.stream[equal] == running_.requests[equal].stream &&
               plan.bytes[equal] == running_.requests[equal].bytes) {
            ++equal;
        }
        if (equal < next_) continue;
        followed_ = turn_of(plan.kind);
        return true;
    }
    return false;
}

void RepeatedSteps::note_occupied(Stream stream, std::size_t bytes) {
    --end_.planned;
    ++end_.unexpected;
    note_mismatch(MismatchKind::in_use, next_ - 1, stream, bytes);
}

void RepeatedSteps::leave() {
    has_left_ = true;
    // The running request counts already; note_request() counts it again.
    --end_.unexpected;
}

std::int64_t RepeatedSteps::kind_of(const Block& block) const {
    const auto found = recorded_.find(block.record);
    return found == recorded_.end() ? -1 : found->second.kind;
}

void RepeatedSteps::note_mismatch(MismatchKind kind, std::size_t request, Stream stream,
                                  std::size_t bytes) {
    const StepPlan& plan = followed_->plan;
    const bool is_over = request == plan.request_count();
    mismatch_ = Mismatch{.kind = kind,
                         .step = steps_,
                         .stream = stream,
                         .bytes = bytes,
                         .request = static_cast<std::int64_t>(request),
                         .expected_bytes = is_over ? -1 : plan.bytes[request]};
}

void RepeatedSteps::note_request(Block& block) {
    block.record = block.request = -1;
    block.is_in_step = in_step_;
    if (!is_recording_) return;
    block.record = record_;
    block.request = static_cast<std::int32_t>(running_.requests.size());
    ++in_use_;
    running_.requests.push_back(
        {.stream = block.stream, .bytes = static_cast<std::int64_t>(block.requested)});
    if (has_left_) ++end_.unexpected;
}

void RepeatedSteps::note_free(const Block& block) {
    if (block.record < 0) return;
    const auto now = static_cast<std::int32_t>(running_.requests.size());
    if (block.record == record_) {
        running_.requests[static_cast<std::size_t>(block.request)].end = now;
        --in_use_;
        return;
    }
    const auto earlier = recorded_.find(block.record);
    const Recorded& recorded = earlier->second;
    if (const StepKind* const kind = find_kind(recorded.kind)) {
        running_.late_frees.push_back(
            {kind->number, block.request, now, kind->seen - recorded.seen + 1});
    }
    if (--earlier->second.in_use == 0) recorded_.erase(earlier);
}

StepEnd RepeatedSteps::end_record(bool completed) {
    if (running_.label == kBetween && running_.requests.empty()) {
        freed_meanwhile_ = std::move(running_.late_frees);
        followed_ = nullptr;
        return {};
    }
    // A request that failed is not recorded, although the plan expected it.
    end_.is_planned = is_following() && end_.unexpected == 0 && next_ == running_.requests.size() &&
                      next_ == followed_->plan.request_count();
    std::int64_t seen = 0;
    if (completed) {
        const StepKind& kind = kind_of_step(std::exchange(running_, {}));
        seen = kind.seen;
        if (end_.is_planned && followed_->plan.kind < 0) followed_->plan.kind = kind.number;
        end_.kind = kind.number;
        followed_by_[{last_step_, last_between_, kind.label}] = kind.number;
        (kind.label == kBetween ? last_between_ : last_step_) = kind.number;
    }
    end_following(completed);
    if (in_use_ > 0) recorded_.emplace(record_, Recorded{end_.kind, seen, in_use_});
    ++record_;
    in_use_ = 0;
    return end_;
}

// Ends the way along a plan, and drops plans that were left too often.
void RepeatedSteps::end_following(bool completed) {
    if (followed_ != nullptr) {
        followed_->last_turn = record_;
        if (completed) followed_->left = end_.is_planned ? 0 : followed_->left + 1;
        followed_ = nullptr;
    }
    for (;;) {
        const auto gone = std::ranges::find_if(
            plans_, [](const Followed& followed) { return followed.left >= kMostLeft; });
        if (gone == plans_.end()) break;
        const std::int64_t number = gone->plan.kind;
        std::erase_if(plans_, [&](const Followed& each) { return each.plan.kind == number; });
        StepKind* const kind = find_kind(number);
        if (kind == nullptr) continue;
        kind->planless = kind->seen;
        kind->needed *= 2;
    }
    if (plans_.empty()) arena_bytes_ = 0;
}

// Counts a step that has just ended to its kind.
StepKind& RepeatedSteps::kind_of_step(StepKind&& step) {
    step.digest_all();
    Label& label = labels_[step.label];
    auto found = std::ranges::find_if(kinds_, [&](const StepKind& kind) {
        return kind.digest == step.digest && kind.label == step.label &&
               kind.requests.size() == step.requests.size();
    });
    if (found == kinds_.end()) {
        if (kinds_.size() == kMostKinds) {
            const auto oldest = std::ranges::min_element(kinds_, {}, &StepKind::last_seen);
            std::erase_if(followed_by_, [gone = oldest->number](const auto& entry) {
                const auto& [last_step, last_between, next_label] = entry.first;
                return last_step == gone || last_between == gone || entry.second == gone;
            });
            kinds_.erase(oldest);
        }
        step.number = next_number_++;
        label.last_new = label.seen;
        step.seen = 0;
        found = kinds_.insert(kinds_.end(), std::move(step));
    } else {
        found->late_frees = std::move(step.late_frees);
    }
    ++label.seen;
    ++found->seen;
    found->last_seen = record_;
    return *found;
}

bool RepeatedSteps::is_settled(std::int32_t label) const {
    if (label == kBetween) return false;
    const Label& its = labels_.at(label);
    return its.seen >= 2 * its.last_new;
}

std::vector<StepKind> RepeatedSteps::to_plan(bool is_first) const {
    std::vector<StepKind> repeated;
    bool is_news = false;
    for (const StepKind& kind : kinds_) {
        if (kind.seen - kind.planless < kind.needed || kind.requests.empty()) continue;
        repeated.push_back(kind);
        if (is_first && !is_settled(kind.label)) continue;
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
    for (StepPlan& plan : plans) plans_.push_back({std::move(plan)});
    followed_ =
        is_recording_ && running_.requests.empty() ? turn_of(expected_kind(kBetween)) : nullptr;
}

}  // namespace gapless::runtime
