#include "planned_allocator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gapless::runtime {

namespace {

constexpr std::size_t kKeptMismatches = 64;
constexpr std::size_t kMismatchKinds = 4;

std::int64_t block_bytes(std::int64_t bytes) {
    return static_cast<std::int64_t>(round_up(static_cast<std::size_t>(bytes), kBlockAlignment));
}

}  // namespace

PlannedAllocator::PlannedAllocator(DeviceMemory& memory)
    : memory_(memory), heap_(memory), mismatch_counts_(kMismatchKinds) {}

Address PlannedAllocator::allocate(std::size_t bytes, Stream stream) {
    if (bytes == 0) return 0;
    Address address = 0;
    std::optional<Mismatch> mismatch;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener;
    {
        const std::lock_guard lock(mutex_);
        address = serve(bytes, stream, mismatch);
        if (mismatch) {
            if (mismatches_.size() < kKeptMismatches) listener = listener_;
            keep(*mismatch);
        }
    }
    if (listener && *listener) (*listener)(*mismatch);
    return address;
}

Address PlannedAllocator::serve(std::size_t bytes, Stream stream,
                                std::optional<Mismatch>& mismatch) {
    if (mode_ == StepMode::planned) return from_plan(bytes, stream, mismatch);
    if (mode_ == StepMode::unplanned) return from_heap(bytes, stream, Placement::best_fit);
    const Address address = from_heap(bytes, stream, Placement::in_order);
    logged_[address] = next_request_;
    log_.push_back(
        {LogEntry::Kind::request, next_request_++, static_cast<std::int64_t>(bytes), stream});
    return address;
}

void PlannedAllocator::free(Address address) noexcept {
    if (address == 0) return;
    const std::lock_guard lock(mutex_);
    try {
        if (in_arena(address)) {
            const std::int32_t slot = plan_->slot_at(address - arena_.address);
            if (slot >= 0) free_slot(slot);
            return;
        }
        if (!heap_.owns(address)) return;
        if (logging_) {
            if (const auto found = logged_.find(address); found != logged_.end()) {
                log_.push_back({LogEntry::Kind::free, found->second});
                logged_.erase(found);
            }
        }
        const auto bytes = static_cast<std::int64_t>(heap_.requested_bytes(address));
        count_out(bytes);
        figures_.heap_bytes -= block_bytes(bytes);
        heap_.free(address);
    } catch (...) {
        // The block stays out of use; that is all that is lost.
        ++figures_.refused_frees;
    }
}

void PlannedAllocator::use_on(Address address, Stream stream) {
    if (address == 0) return;
    const std::lock_guard lock(mutex_);
    if (!in_arena(address)) {
        if (heap_.owns(address)) heap_.use_on(address, stream);
        return;
    }
    const std::int32_t slot = plan_->slot_at(address - arena_.address);
    if (slot < 0 || stream == plan_->stream_of(slot)) return;
    std::vector<Stream>& streams = used_on_[slot];
    if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
}

void PlannedAllocator::begin_step(StepMode mode) {
    const std::lock_guard lock(mutex_);
    if (in_step_) throw std::logic_error("a step begins within a step");
    if (mode == StepMode::planned) {
        if (!plan_) throw std::logic_error("a planned step needs a plan");
        plan_->begin_step();
    }
    in_step_ = true;
    mode_ = mode;
    if (mode == StepMode::profiled) logging_ = true;
    if (mode == StepMode::unplanned) stop_logging();
    if (logging_) log_.push_back({LogEntry::Kind::step_begins});
}

void PlannedAllocator::end_step() {
    const std::lock_guard lock(mutex_);
    if (!in_step_) throw std::logic_error("a step ends that did not begin");
    if (mode_ == StepMode::planned) {
        figures_.missing_requests += plan_->end_step();
        ++figures_.planned_steps;
    }
    if (logging_) log_.push_back({LogEntry::Kind::step_ends});
    in_step_ = false;
    mode_ = StepMode::unplanned;
    ++figures_.steps;
    ++step_;
}

void PlannedAllocator::adopt_plan(StepPlan plan) {
    const std::lock_guard lock(mutex_);
    if (in_step_) throw std::logic_error("a plan is adopted between steps");
    if (plan_) throw std::logic_error("there is a plan already");
    stop_logging();
    if (plan.arena_bytes() > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    heap_.give_back();
    release_abandoned();
    if (plan.arena_bytes() > 0) arena_ = make_arena(plan.arena_bytes());
    figures_.arena_bytes = static_cast<std::int64_t>(arena_.own_bytes);
    plan_.emplace(std::move(plan));
    measure_reserved();
}

PlannedAllocator::Arena PlannedAllocator::make_arena(std::size_t bytes) {
    const std::size_t page_bytes = memory_.page_bytes();
    const std::size_t rest = bytes % page_bytes;
    Arena& made = abandoned_;  // until it is whole
    try {
        const std::size_t range = round_up(bytes, page_bytes);
        made = {memory_.reserve_range(range), range, 0, 0, false, std::nullopt};
        if (rest > 0) made.room = heap_.find_room(rest);
        made.own_bytes = made.room ? bytes - rest : range;
        if (made.own_bytes > 0) {
            made.pages = memory_.create_pages(made.own_bytes);
            memory_.map(made.address, made.pages, made.own_bytes);
            made.mapped = true;
        }
        if (made.room) memory_.map(made.address + made.own_bytes, made.room->page, page_bytes);
    } catch (...) {
        try {
            release_abandoned();
        } catch (...) {
            // It is tried again when all else is given back; what happened first is the reason.
        }
        throw;
    }
    return std::exchange(made, {});
}

void PlannedAllocator::release_abandoned() {
    if (abandoned_.room) heap_.free(abandoned_.room->block);
    abandoned_.room.reset();
    if (abandoned_.mapped) memory_.unmap(abandoned_.address, abandoned_.own_bytes);
    abandoned_.mapped = false;
    if (abandoned_.pages != 0) memory_.release_pages(abandoned_.pages);
    abandoned_.pages = 0;
    if (abandoned_.bytes > 0) memory_.release_range(abandoned_.address, abandoned_.bytes);
    abandoned_ = {};
}

void PlannedAllocator::give_back() {
    const std::lock_guard lock(mutex_);
    heap_.give_back();
    release_abandoned();
    // Everything is done, uses by other streams too.
    for (const std::int32_t slot : withheld_) plan_->release(slot);
    withheld_.clear();
    forget_uses();
}

std::vector<LogEntry> PlannedAllocator::take_log() {
    const std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
}

Figures PlannedAllocator::figures() const {
    const std::lock_guard lock(mutex_);
    Figures figures = figures_;
    figures.reserved_bytes = reserved_bytes();
    return figures;
}

void PlannedAllocator::reset_peaks() {
    const std::lock_guard lock(mutex_);
    Figures fresh;
    fresh.requested_bytes = fresh.requested_peak = figures_.requested_bytes;
    fresh.allocated_bytes = fresh.allocated_peak = figures_.allocated_bytes;
    fresh.reserved_bytes = fresh.reserved_peak = reserved_bytes();
    fresh.heap_bytes = figures_.heap_bytes;
    fresh.arena_bytes = figures_.arena_bytes;
    figures_ = fresh;
    mismatches_.clear();
    mismatch_counts_.assign(kMismatchKinds, 0);
}

std::vector<Mismatch> PlannedAllocator::mismatches() const {
    const std::lock_guard lock(mutex_);
    return mismatches_;
}

std::vector<std::int64_t> PlannedAllocator::mismatch_counts() const {
    const std::lock_guard lock(mutex_);
    return mismatch_counts_;
}

void PlannedAllocator::on_mismatch(std::function<void(const Mismatch&)> listener) {
    auto shared = std::make_shared<const std::function<void(const Mismatch&)>>(std::move(listener));
    const std::lock_guard lock(mutex_);
    // The one before goes after the lock, since its end may run Python.
    listener_.swap(shared);
}

void PlannedAllocator::check() const {
    const std::lock_guard lock(mutex_);
    heap_.check();
}

Address PlannedAllocator::from_heap(std::size_t bytes, Stream stream, Placement placement) {
    Address address = 0;
    try {
        address = heap_.allocate(bytes, stream, placement);
    } catch (const OutOfDeviceMemory& error) {
        // Programs look for the first sentence.
        throw OutOfDeviceMemory(
            "CUDA out of memory. Tried to allocate " + std::to_string(bytes) + " bytes; " +
            std::to_string(figures_.allocated_bytes) + " are allocated, " +
            std::to_string(heap_.reserved_bytes()) + " reserved by the heap and " +
            std::to_string(figures_.arena_bytes) + " by the plan (" + error.what() + ")");
    }
    figures_.heap_bytes += block_bytes(static_cast<std::int64_t>(bytes));
    count_in(static_cast<std::int64_t>(bytes));
    measure_reserved();
    return address;
}

Address PlannedAllocator::from_plan(std::size_t bytes, Stream stream,
                                    std::optional<Mismatch>& mismatch) {
    const Decision decision = plan_->request(stream, bytes);
    if (decision.kind == Decision::Kind::planned) {
        if (!uses_.empty()) wait_for_uses(decision.slot);
        ++figures_.planned_requests;
        count_in(static_cast<std::int64_t>(bytes));
        return arena_.address + static_cast<Address>(plan_->offset_of(decision.slot));
    }
    const Address address = from_heap(bytes, stream, Placement::best_fit);
    if (decision.kind == Decision::Kind::outlives) {
        ++figures_.outliving_requests;
    } else {
        ++figures_.fallback_requests;
        figures_.fallback_bytes += static_cast<std::int64_t>(bytes);
        mismatch = decision.mismatch;
        mismatch->step = step_;
    }
    return address;
}

// Note [Uses by other streams]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A place of the arena that another stream used comes back as soon as the program frees it, as the
// plan has it. Whoever gets bytes of it next belongs to the same stream as it did, because each
// stream has a part of the arena of its own; that stream then waits on the device for the other's
// work, as recorded at the free. What it is given later waits with it, so one wait is enough. The
// host never waits, and no memory is held back. PyTorch's own allocator holds the block back
// instead, until it happens to see that the work is done. Where the device refuses to record the
// work, the place is withheld until everything is waited for.
void PlannedAllocator::wait_for_uses(std::int32_t slot) {
    const std::int64_t begin = plan_->offset_of(slot);
    const std::int64_t end = begin + block_bytes(plan_->bytes_of(slot));
    try {
        for (std::size_t i = 0; i < uses_.size();) {
            Use& use = uses_[i];
            if (use.begin >= end || use.end <= begin) {
                ++i;
                continue;
            }
            if (!use.waited_for) memory_.make_wait(plan_->stream_of(slot), use.event);
            use.waited_for = true;
            memory_.destroy_event(use.event);
            use = uses_.back();
            uses_.pop_back();
        }
    } catch (...) {
        plan_->release(slot);
        throw;
    }
}

void PlannedAllocator::free_slot(std::int32_t slot) {
    if (std::ranges::find(withheld_, slot) != withheld_.end()) return;
    count_out(plan_->bytes_of(slot));
    if (used_on_.contains(slot)) record_uses(slot);
    plan_->release(slot);
}

void PlannedAllocator::record_uses(std::int32_t slot) {
    const std::vector<Stream> streams = std::move(used_on_.extract(slot).mapped());
    const std::int64_t begin = plan_->offset_of(slot);
    const std::int64_t end = begin + block_bytes(plan_->bytes_of(slot));
    try {
        for (const Stream stream : streams) {
            uses_.push_back({begin, end, memory_.record_event(stream)});
        }
    } catch (...) {
        withheld_.push_back(slot);
        throw;
    }
}

void PlannedAllocator::forget_uses() {
    while (!uses_.empty()) {
        memory_.destroy_event(uses_.back().event);
        uses_.pop_back();
    }
}

void PlannedAllocator::count_in(std::int64_t bytes) {
    figures_.requested_bytes += bytes;
    figures_.requested_peak = std::max(figures_.requested_peak, figures_.requested_bytes);
    figures_.allocated_bytes += block_bytes(bytes);
    figures_.allocated_peak = std::max(figures_.allocated_peak, figures_.allocated_bytes);
}

void PlannedAllocator::count_out(std::int64_t bytes) {
    figures_.requested_bytes -= bytes;
    figures_.allocated_bytes -= block_bytes(bytes);
}

std::int64_t PlannedAllocator::reserved_bytes() const {
    return static_cast<std::int64_t>(heap_.reserved_bytes()) + figures_.arena_bytes;
}

void PlannedAllocator::measure_reserved() {
    figures_.reserved_peak = std::max(figures_.reserved_peak, reserved_bytes());
}

void PlannedAllocator::stop_logging() {
    logging_ = false;
    log_.clear();
    logged_.clear();
}

void PlannedAllocator::keep(Mismatch& mismatch) {
    mismatch.number = next_mismatch_++;
    ++mismatch_counts_[static_cast<std::size_t>(mismatch.kind)];
    if (mismatches_.size() < kKeptMismatches) mismatches_.push_back(mismatch);
}

}  // namespace gapless::runtime
