#include "allocator/planned_allocator.h"

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
        if (PlanArena* arena = arena_of(address)) {
            const std::int32_t slot = arena->slot_at(address);
            if (slot < 0) return;
            count_out(arena->plan().bytes_of(slot));
            arena->free(slot);
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
    if (PlanArena* arena = arena_of(address)) {
        if (const std::int32_t slot = arena->slot_at(address); slot >= 0) {
            arena->use_on(slot, stream);
        }
    } else if (heap_.owns(address)) {
        heap_.use_on(address, stream);
    }
}

void PlannedAllocator::begin_step(StepMode mode) {
    const std::lock_guard lock(mutex_);
    if (in_step_) throw std::logic_error("a step begins within a step");
    if (mode == StepMode::planned) {
        if (!arena_) throw std::logic_error("a planned step needs a plan");
        arena_->plan().begin_step();
    }
    counts_ = {};
    in_step_ = true;
    mode_ = mode;
    if (mode == StepMode::profiled) logging_ = true;
    if (mode == StepMode::unplanned) stop_logging();
    if (logging_) log_.push_back({LogEntry::Kind::step_begins});
}

StepCounts PlannedAllocator::end_step() {
    const std::lock_guard lock(mutex_);
    if (!in_step_) throw std::logic_error("a step ends that did not begin");
    if (mode_ == StepMode::planned) {
        counts_.missing = arena_->plan().end_step();
        figures_.missing_requests += counts_.missing;
        ++figures_.planned_steps;
    }
    if (logging_) log_.push_back({LogEntry::Kind::step_ends});
    in_step_ = false;
    mode_ = StepMode::unplanned;
    ++figures_.steps;
    ++step_;
    return counts_;
}

void PlannedAllocator::adopt_plan(StepPlan plan) {
    const std::lock_guard lock(mutex_);
    if (in_step_) throw std::logic_error("a plan is adopted between steps");
    if (arena_) throw std::logic_error("there is a plan already");
    stop_logging();
    heap_.give_back();
    release_retired();
    auto made = std::make_unique<PlanArena>(memory_, heap_, std::move(plan));
    try {
        made->obtain();
    } catch (...) {
        retired_.push_back(std::move(made));
        try {
            release_retired();
        } catch (...) {
            // It is tried again when all else is given back; what happened first is the reason.
        }
        throw;
    }
    arena_ = std::move(made);
    figures_.arena_bytes = static_cast<std::int64_t>(arena_->own_bytes());
    measure_reserved();
}

void PlannedAllocator::drop_plan() {
    const std::lock_guard lock(mutex_);
    if (in_step_) throw std::logic_error("a plan is dropped between steps");
    if (!arena_) throw std::logic_error("there is no plan to drop");
    retired_.push_back(std::move(arena_));
    figures_.arena_bytes = 0;
    memory_.synchronize();
    release_retired();
}

void PlannedAllocator::give_back() {
    const std::lock_guard lock(mutex_);
    memory_.synchronize();
    if (arena_) arena_->settle();
    release_retired();
    // Last, because arenas leave it parts of pages.
    heap_.give_back();
}

// The device was waited for.
void PlannedAllocator::release_retired() {
    for (auto& arena : retired_) arena->settle();
    for (std::size_t i = 0; i < retired_.size();) {
        if (retired_[i]->is_in_use()) {
            ++i;
            continue;
        }
        retired_[i]->release();
        retired_.erase(retired_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

PlanArena* PlannedAllocator::arena_of(Address address) const {
    if (arena_ && arena_->owns(address)) return arena_.get();
    for (const auto& arena : retired_) {
        if (arena->owns(address)) return arena.get();
    }
    return nullptr;
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
        address = place_in_heap(bytes, stream, placement);
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

Address PlannedAllocator::place_in_heap(std::size_t bytes, Stream stream, Placement placement) {
    try {
        return heap_.allocate(bytes, stream, placement);
    } catch (const OutOfDeviceMemory&) {
        if (retired_.empty()) throw;
    }
    memory_.synchronize();
    release_retired();
    return heap_.allocate(bytes, stream, placement);
}

Address PlannedAllocator::from_plan(std::size_t bytes, Stream stream,
                                    std::optional<Mismatch>& mismatch) {
    const Decision decision = arena_->request(stream, bytes);
    if (decision.kind == Decision::Kind::planned) {
        ++figures_.planned_requests;
        ++counts_.planned;
        count_in(static_cast<std::int64_t>(bytes));
        return arena_->address_of(decision.slot);
    }
    const Address address = from_heap(bytes, stream, Placement::best_fit);
    if (decision.kind == Decision::Kind::escapes) {
        ++figures_.escaping_requests;
        ++counts_.escaping;
    } else {
        ++figures_.fallback_requests;
        ++counts_.fallback;
        figures_.fallback_bytes += static_cast<std::int64_t>(bytes);
        mismatch = decision.mismatch;
        mismatch->step = step_;
    }
    return address;
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
    std::size_t bytes = heap_.reserved_bytes() + (arena_ ? arena_->own_bytes() : 0);
    for (const auto& arena : retired_) bytes += arena->own_bytes();
    return static_cast<std::int64_t>(bytes);
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
