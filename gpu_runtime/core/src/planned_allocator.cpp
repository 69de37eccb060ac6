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
        if (mode_ == StepMode::planned) {
            address = from_plan(bytes, stream, mismatch);
        } else {
            const bool profiled = mode_ == StepMode::profiled;
            address =
                from_heap(bytes, stream, profiled ? Placement::in_order : Placement::best_fit);
            if (profiled) {
                logged_[address] = next_request_;
                log_.push_back({LogEntry::Kind::request, next_request_++,
                                static_cast<std::int64_t>(bytes), stream});
            }
        }
        if (mismatch) {
            if (mismatches_.size() < kKeptMismatches) listener = listener_;
            keep(*mismatch);
        }
    }
    if (listener && *listener) (*listener)(*mismatch);
    return address;
}

void PlannedAllocator::free(Address address) noexcept {
    if (address == 0) return;
    const std::lock_guard lock(mutex_);
    try {
        if (in_arena(address)) {
            const std::int32_t slot = plan_->slot_at(address - arena_);
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
    const std::int32_t slot = plan_->slot_at(address - arena_);
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
    heap_.give_back();
    const std::size_t range = round_up(plan.arena_bytes(), memory_.page_bytes());
    if (range > 0) {
        const Address arena = memory_.reserve_range(range);
        try {
            map_arena(arena, plan.arena_bytes());
        } catch (...) {
            memory_.release_range(arena, range);
            throw;
        }
        arena_ = arena;
        arena_range_ = range;
    }
    plan_.emplace(std::move(plan));
    measure_reserved();
}

// Whole pages, and for the rest the beginning of one that the heap has anyway, where there is room:
// the page appears at two addresses, and no byte of it is used at both.
void PlannedAllocator::map_arena(Address arena, std::size_t bytes) {
    const std::size_t page_bytes = memory_.page_bytes();
    const std::size_t rest = bytes % page_bytes;
    const std::optional<PageHeap::Room> room = rest > 0 ? heap_.find_room(rest) : std::nullopt;
    const std::size_t own = room ? bytes - rest : round_up(bytes, page_bytes);
    std::optional<Pages> pages;
    bool mapped = false;
    try {
        if (own > 0) {
            pages = memory_.create_pages(own);
            memory_.map(arena, *pages, own);
            mapped = true;
        }
        if (room) memory_.map(arena + own, room->page, page_bytes);
    } catch (...) {
        if (mapped) memory_.unmap(arena, own);
        if (pages) memory_.release_pages(*pages);
        if (room) heap_.free(room->block);
        throw;
    }
    figures_.arena_bytes = static_cast<std::int64_t>(own);
}

void PlannedAllocator::give_back() {
    const std::lock_guard lock(mutex_);
    heap_.give_back();
    measure_reserved();
}

std::vector<LogEntry> PlannedAllocator::take_log() {
    const std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
}

Figures PlannedAllocator::figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
}

void PlannedAllocator::reset_peaks() {
    const std::lock_guard lock(mutex_);
    Figures fresh;
    fresh.requested_bytes = fresh.requested_peak = figures_.requested_bytes;
    fresh.allocated_bytes = fresh.allocated_peak = figures_.allocated_bytes;
    fresh.reserved_bytes = fresh.reserved_peak = figures_.reserved_bytes;
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
        return arena_ + static_cast<Address>(plan_->offset_of(decision.slot));
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
// instead, until it happens to see that the work is done.
void PlannedAllocator::wait_for_uses(std::int32_t slot) {
    const std::int64_t begin = plan_->offset_of(slot);
    const std::int64_t end = begin + block_bytes(plan_->bytes_of(slot));
    try {
        for (std::size_t i = 0; i < uses_.size();) {
            if (uses_[i].begin >= end || uses_[i].end <= begin) {
                ++i;
                continue;
            }
            memory_.make_wait(plan_->stream_of(slot), uses_[i].event);
            const Event waited_for = uses_[i].event;
            uses_[i] = uses_.back();
            uses_.pop_back();
            memory_.destroy_event(waited_for);
        }
    } catch (...) {
        plan_->release(slot);
        throw;
    }
}

void PlannedAllocator::free_slot(std::int32_t slot) {
    if (!used_on_.empty()) {
        if (const auto used = used_on_.find(slot); used != used_on_.end()) {
            const std::int64_t begin = plan_->offset_of(slot);
            const std::int64_t end = begin + block_bytes(plan_->bytes_of(slot));
            // Where the device refuses, the slot stays in use and nothing gets its bytes.
            for (const Stream stream : used->second) {
                uses_.push_back({begin, end, memory_.record_event(stream)});
            }
            used_on_.erase(used);
        }
    }
    count_out(plan_->bytes_of(slot));
    plan_->release(slot);
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

void PlannedAllocator::measure_reserved() {
    figures_.reserved_bytes =
        static_cast<std::int64_t>(heap_.reserved_bytes()) + figures_.arena_bytes;
    figures_.reserved_peak = std::max(figures_.reserved_peak, figures_.reserved_bytes);
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
