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

// See Note [Memory in bounds]. New memory may be created up to 1/256 above the live peak; up to
// 1/64 before a request that may stay gets idle bytes of the arena. In a recorded mixture of
// experts, 1/64 ended moves of a gigabyte a step for 0.3 % more memory. 1/256 is a guess.
constexpr std::int64_t kShare = 256;
constexpr std::int64_t kStayingShare = 64;
// Unknown requests count as short-lived if at most 1/64 of their bytes, or bytes below 1/512 of the
// live peak, outlive their step. The next batch is small and may be loaded before its step begins.
// Guesses.
constexpr std::size_t kOutlivingShare = 64, kOutlivingShareOfPeak = 512;
constexpr std::int64_t kBoundPages = 4;
// The ration of moves: this many frames at once, and one more for every kRequestsAMove requests. A
// request that would exceed the live peak by more than 1/kMovingShare moves frames beyond the
// ration. Guesses.
constexpr std::int64_t kMovesAtOnce = std::int64_t{1} << 16;
constexpr std::int64_t kRequestsAMove = 2048;
constexpr std::int64_t kMovingShare = 16;
// After this many consecutive steps with moves, memory is created up to 1/kStayingShare above the
// live peak.
constexpr std::int64_t kRestlessSteps = 8;
// A step with unknown requests may leave idle memory beside the arena. Above 1/kIdleShare of the
// live peak the idle memory goes back to the device: kGivenBackAtOnce times without limit, then
// once in kStepsAGiveBack steps. Guesses.
constexpr std::int64_t kIdleShare = 64, kGivenBackAtOnce = 16, kStepsAGiveBack = 64;
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
        address = serve(lock, bytes, stream, mismatch)->address;
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
        block = place_as_planned(lock, planned.offset, bytes, stream);
        if (block == nullptr && planned.spare != kNoPlace) {
            block = place_as_planned(lock, planned.spare, bytes, stream);
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
        // A request that is planned without a place outlives its step, so it must not block places
        // in the arena.
        const bool is_unknown = planned.slot < 0 || planned.mismatch;
        block = place(lock, {bytes, stream, is_unknown, placement(is_unknown)});
        if (is_unknown) {
            block->unknown_in = unknown_.number;
            unknown_.requested += block->bytes;
            unknown_.living += block->bytes;
        }
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
    live_peak_ = std::max(live_peak_, allocated_bytes_);
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
        write({LogEntry::What::free, block->request, 0, static_cast<std::int64_t>(block->stream),
               block->kind, block->slot});
        requested_bytes_ -= static_cast<std::int64_t>(block->requested);
        allocated_bytes_ -= static_cast<std::int64_t>(block->bytes);
        if (block->unknown_in == unknown_.number) unknown_.living -= block->bytes;
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
    judge_unknown(between_, within_);
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
    judge_unknown(within_, between_);
    write({.what = LogEntry::What::step_ends});
    ++figures_.steps;
    ++step_;
    restless_steps_ = moved_bytes_ > moved_before_step_ ? restless_steps_ + 1 : 0;
    moved_before_step_ = moved_bytes_;
    count(end);
    try {
        if (heap_.has_gone()) settle(lock);
        restore_arena(lock);
        give_back_after_step(lock);
    } catch (const std::exception&) {
        // The device refuses for now; the memory stays where it is.
    }
    return end;
}

// See Note [Memory in bounds].
void PlannedAllocator::give_back_after_step(Lock& lock) {
    if (arena_kept() == 0) {
        // From this step on, frames are large, so the small ones go back to the device.
        if (step_ == kStepsInOrder) give_back(lock, 0);
        return;
    }
    if (!had_unknown_ || given_back_ > kGivenBackAtOnce + step_ / kStepsAGiveBack) return;
    if (idle_bytes() <= live_peak_ / kIdleShare) return;
    ++given_back_;
    give_back(lock, arena_kept());
}

std::int64_t PlannedAllocator::idle_bytes() const {
    const auto reserved = static_cast<std::int64_t>(heap_.reserved_bytes() - heap_.arena_bytes());
    std::int64_t idle = reserved - allocated_bytes_;
    for (const Block* block = heap_.first_of_arena(); block != nullptr; block = block->behind) {
        if (block->state == BlockState::used) idle += static_cast<std::int64_t>(block->bytes);
    }
    return idle;
}

// A segment (a step, or the time between two) ends, and the other sort begins.
void PlannedAllocator::judge_unknown(bool& ended, bool begins) {
    // Without a book every request is unknown, so nothing can be learnt of them.
    had_unknown_ = unknown_.requested > 0;
    if (unknown_.requested > 0 && arena_kept() > 0) {
        ended = unknown_.living <=
                std::max(unknown_.requested / kOutlivingShare,
                         static_cast<std::size_t>(live_peak_) / kOutlivingShareOfPeak);
    }
    unknown_ = {unknown_.number + 1, 0, 0, begins};
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
    const bool needs_none = missing == 0 || !is_above(kShare, 0, missing);
    const bool is_kept = former > 0 && wanted >= former && !heap_.is_plain() && needs_none;
    try {
        // The frames that the heap used for these requests go to the arena.
        if (!is_kept) {
            if (heap_.has_withheld()) settle(lock);
            take_out(lock, heap_.take_idle(is_replaced ? 0 : std::min(former, wanted)));
        }
        map_arena(wanted);
        heap_.release_spare();
    } catch (...) {
        measure_reserved();
        try {
            give_back(lock, former);
        } catch (...) {
            // The first error is the one to report.
        }
        throw;
    }
    measure_reserved();
    book_ = std::move(book);
    book_.begin_step(kBetweenSteps);
}

void PlannedAllocator::drop_book() {
    Lock lock(mutex_);
    if (in_step_) throw std::logic_error("a book is dropped between steps");
    book_ = Book();
    book_.begin_step(kBetweenSteps);
    give_back(lock, 0);
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
    if (leaving.runs.empty()) return;
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

Block* PlannedAllocator::place_as_planned(Lock& lock, std::int64_t planned, std::size_t bytes,
                                          Stream stream) {
    Block* block = heap_.place_at(planned, bytes, stream);
    if (block != nullptr) return block;
    const auto offset = static_cast<std::size_t>(planned);
    if (!heap_.is_unmapped(offset, bytes)) return nullptr;
    // See Note [Steps that grow]: the stretched part of the arena is mapped when a request comes to
    // it.
    const bool is_longer = offset + bytes > arena_kept();
    const std::size_t wanted =
        is_longer ? round_up(bytes, kGrowthPages * memory_.page_bytes()) : bytes;
    const std::size_t missing = heap_.arena_missing(offset, wanted);
    // A request may only seem to be of a longer step; then a longer arena would be idle.
    if (is_longer && is_above(kMovingShare, bytes, missing)) return nullptr;
    // The memory of this place moved away; it is idle elsewhere by now, or needed.
    if (is_above(bound(), bytes, missing) && may_move(bytes, missing)) {
        move(lock, heap_.take_idle_for_place(offset, wanted));
    }
    try {
        heap_.fill_arena(offset, wanted);
    } catch (const OutOfDeviceMemory&) {
        measure_reserved();
        release_spare();
        return nullptr;
    }
    measure_reserved();
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

// Releases spare frames that the request did not need. They are reserved but lie in no segment, so
// statistics would not add up.
void PlannedAllocator::release_spare() {
    if (heap_.spare_bytes() == 0) return;
    try {
        heap_.release_spare();
    } catch (const DeviceCallError&) {
        // The next call releases them.
    }
    measure_reserved();
}

Block* PlannedAllocator::place_with_more(Lock& lock, const Wanted& wanted) {
    const std::size_t missing = heap_.missing_for(wanted.bytes, wanted.stream, wanted.placement);
    const std::size_t more = missing - std::min(missing, heap_.spare_bytes());
    if (more > 0 && is_above(bound(), wanted.bytes, more)) {
        if (Block* block = place_within_bound(lock, wanted, more)) return block;
    }
    for (bool is_last = false;; is_last = true) {
        try {
            heap_.grow(wanted.bytes, wanted.stream, wanted.placement, frame_size(wanted));
            measure_reserved();
            Block* block = heap_.place(wanted.bytes, wanted.stream, wanted.placement);
            // If the hole was filled to its end, no hole is left behind which blocks can be placed
            // in order.
            if (block == nullptr) {
                block = heap_.place(wanted.bytes, wanted.stream, Placement::best_fit);
            }
            if (block != nullptr) return block;
        } catch (const OutOfDeviceMemory&) {
            measure_reserved();
            // Gives all idle memory back before the next try. The device, or other libraries, may
            // need memory that this allocator could not use.
            give_back(lock, 0);
            if (is_last) throw;
        }
    }
}

Block* PlannedAllocator::place_within_bound(Lock& lock, const Wanted& wanted, std::size_t more) {
    // See Note [Blocks in order].
    if (wanted.placement == Placement::in_order) {
        const Placement hole =
            wanted.bytes < kLargeBytes ? Placement::best_fit : Placement::largest_hole;
        if (Block* block = heap_.place(wanted.bytes, wanted.stream, hole)) return block;
    }
    // Before the first step, the program creates its model, which stays. It must not block the
    // arena of a saved plan.
    const bool may_stay_there =
        (step_ > 0 || in_step_) && is_above(kStayingShare, wanted.bytes, more);
    if (wanted.may_use_arena && (unknown_.outlives_rarely || may_stay_there)) {
        if (Block* block = heap_.place_in_arena(wanted.bytes, wanted.stream)) return block;
    }
    if (may_move(wanted.bytes, more)) {
        // The idle memory of the arena may be in pieces, none of which is long enough.
        const std::size_t kept = is_above(kStayingShare, wanted.bytes, more) ? 0 : arena_kept();
        move(lock, heap_.take_idle_for(wanted.bytes, wanted.stream, wanted.placement, kept));
    }
    return nullptr;
}

std::int64_t PlannedAllocator::bound() const {
    return restless_steps_ < kRestlessSteps ? kShare : kStayingShare;
}

bool PlannedAllocator::may_move(std::size_t bytes, std::size_t more) const {
    return moved_frames_ <= kMovesAtOnce + next_request_ / kRequestsAMove ||
           is_above(kMovingShare, bytes, more);
}

void PlannedAllocator::move(Lock& lock, const BlockHeap::Leaving& leaving) {
    take_out(lock, leaving);
    figures_.moved_bytes += static_cast<std::int64_t>(leaving.bytes);
    moved_frames_ += static_cast<std::int64_t>(leaving.frames);
    moved_bytes_ += static_cast<std::int64_t>(leaving.bytes);
}

// See Note [Blocks in order]: the first steps create blocks that stay, and a step of a new kind
// may.
Placement PlannedAllocator::placement(bool is_unknown) const {
    const bool may_stay = arena_kept() == 0 ? step_ < kStepsInOrder : is_unknown && !within_;
    const bool is_in_order = in_step_ && may_stay && moved_bytes_ <= kMostMovedInOrder * live_peak_;
    return is_in_order ? Placement::in_order : Placement::best_fit;
}

// The model is created before the first step, in small frames.
FrameSize PlannedAllocator::frame_size(const Wanted& wanted) const {
    const bool is_early = arena_kept() == 0 && step_ < kStepsInOrder;
    return is_early || wanted.placement == Placement::in_order ? FrameSize::page : FrameSize::large;
}

bool PlannedAllocator::is_above(std::int64_t share, std::size_t bytes, std::size_t more) const {
    const std::int64_t live = std::max(
        live_peak_, allocated_bytes_ + static_cast<std::int64_t>(round_up(bytes, kBlockAlignment)));
    const auto pages = kBoundPages * static_cast<std::int64_t>(memory_.page_bytes());
    return static_cast<std::int64_t>(heap_.reserved_bytes() + more) > live + live / share + pages;
}

// See Note [Memory in bounds]. What is not mapped here is mapped when a request comes to its place.
// Before the first step there is no live peak to compare the arena with, so all of it is mapped.
void PlannedAllocator::map_arena(std::size_t bytes) {
    const std::size_t missing = heap_.arena_missing(0, bytes);
    const std::size_t more = missing - std::min(missing, heap_.spare_bytes());
    if (heap_.is_plain() || step_ == 0 || more == 0 || !is_above(kShare, 0, more)) {
        heap_.fill_arena(0, bytes);
    } else {
        heap_.refill_arena(bytes);
    }
}

// Maps the parts of the arena that were unmapped, from frames that are idle elsewhere by now.
void PlannedAllocator::restore_arena(Lock& lock) {
    const std::size_t missing = heap_.arena_missing(0, arena_kept());
    if (missing == 0) return;
    try {
        if (is_above(kShare, 0, missing)) move(lock, heap_.take_idle(missing, arena_kept()));
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
