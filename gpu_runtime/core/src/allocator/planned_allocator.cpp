#include "allocator/planned_allocator.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gapless::runtime {

namespace {

// Mismatches kept since reset_peaks(); later ones are only counted. A guess.
constexpr std::size_t kKeptMismatches = 64;
// Entries of a log that the caller does not take. At this length the log is dropped. A guess.
constexpr std::size_t kMostLogged = std::size_t{1} << 22;

// Pages by which an arena grows within a step. A guess.
constexpr std::size_t kGrowthPages = 16;
// Steps in which blocks are placed in order, see Note [Blocks in order]. A guess.
constexpr std::int64_t kStepsInOrder = 4;
// Blocks are placed in order until this multiple of the live peak has moved; above the bound,
// requests from kLargeBytes on begin the largest hole.
constexpr std::int64_t kMostMovedInOrder = 2;
constexpr std::size_t kLargeBytes = std::size_t{8} << 20;

}  // namespace

PlannedAllocator::PlannedAllocator(DeviceMemory& memory, bool is_plain, bool is_checked)
    : check_(is_checked ? std::make_unique<OverwriteCheck>(memory) : nullptr),
      memory_(check_ != nullptr ? *check_ : memory),
      heap_(memory_, is_plain, statistics_),
      bound_(memory_.page_bytes()),
      mismatch_counts_(kMismatchKinds) {
    book_.begin_step(kBetweenSteps);
}

Address PlannedAllocator::allocate(std::size_t bytes, Stream stream) {
    if (bytes == 0) return 0;
    if (bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    Address address = 0;
    std::optional<Mismatch> mismatch;
    std::shared_ptr<const std::function<void(const Mismatch&)>> listener;
    {
        Lock lock(mutex_);
        try {
            address = serve(lock, bytes, stream, mismatch)->address;
        } catch (...) {
            heap_.put_back();
            throw;
        }
        if (mismatch) {
            if (mismatches_.size() < kKeptMismatches) listener = listener_;
            keep(*mismatch);
        }
    }
    if (listener && *listener) (*listener)(*mismatch);
    return address;
}

Block* PlannedAllocator::serve(Lock& lock, std::size_t bytes, Stream stream,
                               std::optional<Mismatch>& mismatch) {
    Book::Place planned = book_.request(stream, bytes);
    Block* block = nullptr;
    if (planned.offset != kNoPlace) {
        block = place_as_planned(planned.offset, bytes, stream);
        if (block == nullptr && planned.spare != kNoPlace) {
            block = place_as_planned(planned.spare, bytes, stream);
        }
        if (block != nullptr) {
            block->is_handed_over = planned.handed_over;
        } else {
            book_.was_in_use();
            planned.mismatch = Mismatch{.kind = MismatchKind::in_use,
                                        .stream = stream,
                                        .bytes = bytes,
                                        .request = planned.slot,
                                        .step_kind = planned.kind};
        }
    }
    const std::int64_t request = next_request_++;
    if (block == nullptr) {
        const bool is_planned = planned.slot >= 0 && !planned.mismatch;
        block = place(lock, {bytes, stream, is_planned, placement()});
    }
    block->request = request;
    block->kind = planned.kind;
    block->slot = planned.slot;
    if (check_ != nullptr) check_->enter(*block, step_);
    write({LogEntry::What::request, request, static_cast<std::int64_t>(bytes),
           static_cast<std::int64_t>(stream), planned.kind, planned.slot});
    statistics_.allocated(bytes, block->bytes);
    requested_bytes_ += static_cast<std::int64_t>(bytes);
    allocated_bytes_ += static_cast<std::int64_t>(block->bytes);
    figures_.requested_peak = std::max(figures_.requested_peak, requested_bytes_);
    figures_.allocated_peak = std::max(figures_.allocated_peak, allocated_bytes_);
    bound_.note(allocated_bytes_);
    if (in_step_) figures_.step_bytes += static_cast<std::int64_t>(bytes);
    // Outside of steps, an unexpected request is not a mismatch.
    if (planned.mismatch && in_step_) {
        ++figures_.fallback_requests;
        figures_.fallback_bytes += static_cast<std::int64_t>(bytes);
        mismatch = planned.mismatch;
        mismatch->step = step_;
    }
    return block;
}

bool PlannedAllocator::free(Address address) noexcept {
    if (address == 0) return false;
    const Lock lock(mutex_);
    Block* block = heap_.find(address);
    if (block == nullptr) return false;
    try {
        write({LogEntry::What::free, block->request, static_cast<std::int64_t>(block->requested),
               static_cast<std::int64_t>(block->stream), block->kind, block->slot});
        requested_bytes_ -= static_cast<std::int64_t>(block->requested);
        allocated_bytes_ -= static_cast<std::int64_t>(block->bytes);
        if (check_ != nullptr) check_->leave(*block, step_);
        heap_.free(*block);
    } catch (...) {
        // The block is lost to later requests; nothing else is damaged.
        ++figures_.refused_frees;
    }
    return true;
}

bool PlannedAllocator::use_on(Address address, Stream stream) {
    const Lock lock(mutex_);
    Block* block = heap_.find(address);
    if (block != nullptr) heap_.use_on(*block, stream);
    return block != nullptr;
}

StepEnd PlannedAllocator::begin_step(std::int32_t label) {
    require_label(label);
    Lock lock(mutex_);
    if (in_step_) throw std::logic_error("a step begins within a step");
    restore_arena(lock);
    StepEnd between = book_.end_step();
    between.reserved_peak =
        std::exchange(step_reserved_peak_, static_cast<std::int64_t>(heap_.reserved_bytes()));
    book_.begin_step(label);
    in_step_ = true;
    write({.what = LogEntry::What::step_begins, .bytes = label});
    return between;
}

StepEnd PlannedAllocator::end_step() {
    Lock lock(mutex_);
    if (!in_step_) throw std::logic_error("a step ends that did not begin");
    StepEnd end = book_.end_step();
    end.reserved_peak =
        std::exchange(step_reserved_peak_, static_cast<std::int64_t>(heap_.reserved_bytes()));
    book_.begin_step(kBetweenSteps);
    in_step_ = false;
    write({.what = LogEntry::What::step_ends});
    ++figures_.steps;
    ++step_;
    count(end);
    try {
        if (heap_.has_gone()) settle(lock);
        restore_arena(lock);
        retire_excess();
    } catch (const std::exception&) {
        // The device refuses for now; the memory stays where it is.
    }
    return end;
}

// Idle memory above the bound goes back to the device, as soon as its streams are done.
void PlannedAllocator::retire_excess() {
    if (heap_.is_plain()) return;
    const auto reserved = static_cast<std::int64_t>(heap_.reserved_bytes());
    const std::int64_t excess = reserved - bound_.most();
    try {
        if (excess > 0) heap_.retire(static_cast<std::size_t>(excess), arena_kept());
    } catch (const DeviceCallError&) {
        // A stream is destroyed, or the device refuses: the memory stays for now.
        heap_.put_back();
    }
    heap_.unmap_old();
    measure_reserved();
}

void PlannedAllocator::count(const StepEnd& end) {
    if (end.kind < 0) return;
    ++figures_.planned_steps;
    figures_.planned_requests += end.planned;
    figures_.escaping_requests += end.escaping;
    figures_.grown_requests += end.grown;
    figures_.missing_requests += end.missing;
}

void PlannedAllocator::adopt_book(Book book) {
    Lock lock(mutex_);
    if (in_step_) throw std::logic_error("a book is adopted between steps");
    const std::size_t former = arena_kept(), wanted = book.arena_bytes();
    // A plain arena cannot grow, and must not lie beside its successor.
    const std::size_t missing = heap_.arena_missing(0, wanted);
    const bool is_replaced = heap_.is_plain() && missing > 0;
    // An arena that is mapped already, or lacks less than the bound allows, needs no wait for the
    // device.
    const bool needs_none = missing == 0 || !is_above_bound(0, missing);
    const bool is_kept = former > 0 && wanted >= former && !heap_.is_plain() && needs_none;
    try {
        if (is_replaced) take_out(lock, heap_.take_idle(0));
        // The frames that the heap used for these requests go to the arena.
        if (!is_kept && !heap_.is_plain()) {
            gather([&] { heap_.gather_for_arena({0, wanted}, {}); });
        }
        map_arena(wanted);
        heap_.put_back();
        heap_.release_spare();
    } catch (...) {
        heap_.put_back();
        measure_reserved();
        try {
            give_back(lock, former);
        } catch (...) {
            // The first error is the one to report.
        }
        throw;
    }
    measure_reserved(true);
    book_ = std::move(book);
    book_.begin_step(kBetweenSteps);
    retire_excess();
}

void PlannedAllocator::drop_book() {
    const Lock lock(mutex_);
    if (in_step_) throw std::logic_error("a book is dropped between steps");
    book_ = Book();
    book_.begin_step(kBetweenSteps);
}

std::size_t PlannedAllocator::give_back() {
    Lock lock(mutex_);
    return give_back(lock, arena_kept());
}

void PlannedAllocator::settle(Lock& lock) {
    const BlockHeap::Unsettled unsettled = heap_.unsettled();
    lock.unlock();
    heap_.await(unsettled);
    lock.lock();
    heap_.settle(unsettled);
}

std::size_t PlannedAllocator::give_back(Lock& lock, std::size_t arena_kept) {
    if (heap_.has_withheld()) settle(lock);
    const std::size_t before = heap_.reserved_bytes();
    take_out(lock, heap_.take_idle(arena_kept));
    heap_.release_spare();
    measure_reserved();
    return before - std::min(before, heap_.reserved_bytes());
}

void PlannedAllocator::take_out(Lock& lock, const BlockHeap::Leaving& leaving) {
    if (leaving.runs.empty() && leaving.marks.empty()) return;
    lock.unlock();
    std::exception_ptr refused;
    try {
        heap_.await(leaving);
    } catch (...) {
        refused = std::current_exception();
    }
    lock.lock();
    if (refused != nullptr) {
        heap_.put_back(leaving);
        std::rethrow_exception(refused);
    }
    heap_.finish(leaving);
}

void PlannedAllocator::check() const {
    const Lock lock(mutex_);
    heap_.check();
}

Block* PlannedAllocator::place_as_planned(std::int64_t planned, std::size_t bytes, Stream stream) {
    Block* block = heap_.place_at(planned, bytes, stream);
    if (block != nullptr) return block;
    const auto offset = static_cast<std::size_t>(planned);
    if (heap_.recall(offset, bytes)) {
        measure_reserved();
        block = heap_.place_at(planned, bytes, stream);
        if (block != nullptr) return block;
    }
    if (!heap_.is_unmapped(offset, bytes)) return nullptr;
    // See Note [Steps that grow]: the stretched part of the arena is mapped when a request comes to
    // it.
    const bool is_longer = offset + bytes > arena_kept();
    const std::size_t wanted =
        is_longer ? round_up(bytes, kGrowthPages * memory_.page_bytes()) : bytes;
    const std::size_t missing = heap_.arena_missing(offset, wanted);
    // The memory of this place moved away; it is idle elsewhere by now, or needed.
    if (is_above_bound(bytes, missing)) {
        gather([&] { heap_.gather_for_arena({offset, offset + wanted}, book_.needed_places()); });
    }
    // A request may only seem to be of a longer step; then a longer arena would be idle.
    const std::size_t more = missing - std::min(missing, heap_.available_bytes());
    if (is_longer && is_above_bound(bytes, more)) {
        heap_.put_back();
        return nullptr;
    }
    try {
        heap_.fill_arena(offset, wanted);
    } catch (const OutOfDeviceMemory&) {
        release_spare();
        return nullptr;
    }
    block = heap_.place_at(planned, bytes, stream);
    release_spare();
    return block;
}

Block* PlannedAllocator::place(Lock& lock, const Wanted& wanted) {
    Block* block = heap_.place(wanted.bytes, wanted.stream, wanted.placement);
    if (block != nullptr) return block;
    block = place_with_more(lock, wanted);
    release_spare();
    return block;
}

// Puts gathered frames back and releases spare frames that the request did not need. They are
// reserved but lie in no segment, so statistics would not add up.
void PlannedAllocator::release_spare() {
    heap_.put_back();
    try {
        heap_.release_spare();
    } catch (const DeviceCallError&) {
        // The next call releases them.
    }
    measure_reserved();
}

Block* PlannedAllocator::place_with_more(Lock& lock, const Wanted& wanted) {
    const std::size_t missing = heap_.missing_for(wanted.bytes, wanted.stream, wanted.placement);
    heap_.unmap_old();
    if (is_above_bound(wanted.bytes, missing)) {
        if (Block* block = place_within_bound(wanted)) return block;
    }
    for (bool is_last = false;; is_last = true) {
        try {
            heap_.grow(wanted.bytes, wanted.stream, wanted.placement);
            measure_reserved();
            Block* block = heap_.place(wanted.bytes, wanted.stream, wanted.placement);
            // If the hole was filled to its end, no hole is left behind which blocks can be placed
            // in order.
            if (block == nullptr) {
                block = heap_.place(wanted.bytes, wanted.stream, Placement::best_fit);
            }
            if (block != nullptr) return block;
        } catch (const OutOfDeviceMemory&) {
            heap_.put_back();
            measure_reserved();
            // Gives all idle memory back before the next try. The device, or other libraries, may
            // need memory that this allocator could not use.
            give_back(lock, 0);
            if (is_last) throw;
        }
    }
}

Block* PlannedAllocator::place_within_bound(const Wanted& wanted) {
    // See Note [Blocks in order].
    if (wanted.placement == Placement::in_order) {
        const Placement hole =
            wanted.bytes < kLargeBytes ? Placement::best_fit : Placement::largest_hole;
        if (Block* block = heap_.place(wanted.bytes, wanted.stream, hole)) return block;
    }
    if (heap_.has_withheld()) {
        try {
            heap_.free_withheld();
        } catch (const DeviceCallError&) {
            // The blocks stay withheld.
        }
        if (Block* block = heap_.place(wanted.bytes, wanted.stream, wanted.placement)) return block;
    }
    if (heap_.is_plain()) return nullptr;
    // A block that the plan expects to stay must not keep the frames of a place.
    if (wanted.is_planned) return place_with_idle(wanted, {{0, arena_kept()}});
    if (Block* block = place_with_idle(wanted, book_.needed_places())) return block;
    if (heap_.available_bytes() >=
        heap_.missing_for(wanted.bytes, wanted.stream, wanted.placement)) {
        return nullptr;
    }
    heap_.put_back();
    return place_with_idle(wanted, {});
}

// Returns a block in idle frames at old mappings. Without such, gathers idle frames, and returns
// null. Takes no frame from the ranges `kept` of the arena.
Block* PlannedAllocator::place_with_idle(const Wanted& wanted,
                                         const std::vector<ArenaRange>& kept) {
    if (heap_.recall_for(wanted.bytes, wanted.stream, kept)) {
        return heap_.place(wanted.bytes, wanted.stream, Placement::best_fit);
    }
    gather([&] { heap_.gather(wanted.bytes, wanted.stream, wanted.placement, kept); });
    return nullptr;
}

template <class Gather>
void PlannedAllocator::gather(const Gather& gather_frames) {
    try {
        gather_frames();
    } catch (const DeviceCallError&) {
        // A stream is captured or destroyed, or the device refuses: the heap grows.
        heap_.put_back();
    }
}

// See Note [Blocks in order]: the first steps create blocks that stay.
Placement PlannedAllocator::placement() const {
    const bool is_in_order =
        in_step_ && arena_kept() == 0 && step_ < kStepsInOrder &&
        static_cast<std::int64_t>(heap_.moved_bytes()) <= kMostMovedInOrder * bound_.live_peak();
    return is_in_order ? Placement::in_order : Placement::best_fit;
}

bool PlannedAllocator::is_above_bound(std::size_t bytes, std::size_t more) const {
    const auto block = static_cast<std::int64_t>(round_up(bytes, kBlockAlignment));
    return static_cast<std::int64_t>(heap_.reserved_bytes() + more) >
           bound_.most(allocated_bytes_ + block);
}

// See Note [Memory in bounds]. What is not mapped here is mapped when a request comes to its place.
// Before the first step there is no live peak to compare the arena with, so all of it is mapped.
void PlannedAllocator::map_arena(std::size_t bytes) {
    const std::size_t missing = heap_.arena_missing(0, bytes);
    const std::size_t more = missing - std::min(missing, heap_.available_bytes());
    if (heap_.is_plain() || step_ == 0 || more == 0 || !is_above_bound(0, more)) {
        heap_.fill_arena(0, bytes);
    } else {
        heap_.refill_arena(bytes);
    }
}

// Gives the arena its frames back, as far as they are idle elsewhere by now.
void PlannedAllocator::restore_arena(Lock& lock) {
    if (arena_kept() == 0) return;
    try {
        heap_.recall_arena();
        heap_.unmap_old();
        const std::size_t missing = heap_.arena_missing(0, arena_kept());
        if (missing == 0) return;
        if (is_above_bound(0, missing)) {
            if (heap_.is_plain()) {
                take_out(lock, heap_.take_idle(arena_kept()));
            } else {
                heap_.gather_for_arena({0, arena_kept()}, {});
            }
        }
        map_arena(arena_kept());
    } catch (const std::exception&) {
        // The step's requests are then placed elsewhere.
    }
    release_spare();
    measure_reserved();
}

void PlannedAllocator::write(const LogEntry& entry) {
    if (log_.size() == kMostLogged) log_.clear();
    log_.push_back(entry);
}

void PlannedAllocator::keep(Mismatch& mismatch) {
    mismatch.number = next_mismatch_++;
    ++mismatch_counts_[static_cast<std::size_t>(mismatch.kind)];
    if (mismatches_.size() < kKeptMismatches) mismatches_.push_back(mismatch);
}

}  // namespace gapless::runtime
