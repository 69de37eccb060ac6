#include "online/replay.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "device/ledger_memory.h"
#include "device/replayed_streams.h"
#include "device/simulated_memory.h"

namespace gapless::runtime {

namespace {

constexpr Stream kFirstSideStream = Stream{1} << 62;
// A row may call the device, which takes up to milliseconds; reading the clock takes 20 ns.
constexpr std::size_t kRowsToPause = 64;
// See Note [Progress in a replay]. A guess.
constexpr std::size_t kRowsBehind = 512;

// The current bytes of an allocator.
struct Sums {
    std::size_t reserved, allocated;
    bool add_up;
};

Sums sums_of(const OnlineAllocator& allocator) {
    const OnlineFigures& figures = allocator.figures();
    return {figures.reserved_bytes, figures.allocated_bytes,
            figures.reserved_bytes == figures.active_bytes + figures.free_bytes};
}

Sums sums_of(const PlannedAllocator& allocator) {
    const GaplessGauge& gauge = allocator.gauge();
    return {static_cast<std::size_t>(gauge.reserved_bytes),
            static_cast<std::size_t>(gauge.allocated_bytes), true};
}

void settle(OnlineAllocator& allocator) { allocator.settle(); }
// Planned memory queries its events by itself, at each request.
void settle(PlannedAllocator&) {}

void enter(OnlineAllocator& allocator, std::int64_t visit) { allocator.enter(visit); }
// It tells requests apart by their order in the step.
void enter(PlannedAllocator&, std::int64_t) {}

void enter_pool(OnlineAllocator& allocator, PoolId pool) { allocator.enter_pool(pool); }
void end_pool(OnlineAllocator& allocator, PoolId pool) { allocator.end_pool(pool); }
// Below PyTorch, requests of private pools do not reach it.
void enter_pool(PlannedAllocator&, PoolId) {}
void end_pool(PlannedAllocator& allocator, PoolId) { allocator.give_back(); }

}  // namespace

SideStreams side_streams_of(DeviceMemory& memory) {
    if (auto* const ledger = dynamic_cast<LedgerMemory*>(&memory)) {
        return {[](Stream, Address, std::size_t) {}, [=](Stream stream) { ledger->finish(stream); },
                [=](Stream stream) { ledger->advance(stream); }};
    }
    if (auto* const simulated = dynamic_cast<SimulatedMemory*>(&memory)) {
        return {[=](Stream stream, Address address, std::size_t bytes) {
                    simulated->submit(stream, address, bytes);
                },
                [=](Stream stream) { simulated->finish(stream); },
                [=](Stream stream) { simulated->advance(stream); }};
    }
    if (auto* const replayed = dynamic_cast<ReplayedStreams*>(&memory)) {
        return {[](Stream, Address, std::size_t) {},
                [=](Stream stream) { replayed->finish(stream); },
                [=](Stream stream) { replayed->advance(stream); }};
    }
    return {};
}

template <class Allocator>
Replay<Allocator>::Replay(const RequestLog& log, Allocator& allocator, SideStreams side,
                          const ReplayWitnesses& witnesses, bool has_series)
    : log_(log),
      allocator_(allocator),
      side_(std::move(side)),
      witnesses_(witnesses),
      has_series_(has_series) {
    outcome_.addresses.resize(log.requests().size());
    side_stream_.resize(log.requests().size());
    if (!has_series) return;
    outcome_.reserved.reserve(log.rows().size());
    outcome_.allocated.reserve(log.rows().size());
}

template <class Allocator>
void Replay<Allocator>::run_to(std::size_t behind, const std::function<void()>& pause) {
    if (behind > log_.rows().size()) {
        throw std::invalid_argument("a replay runs to a row of its " +
                                    std::to_string(log_.rows().size()) + ", found " +
                                    std::to_string(behind));
    }
    if (witnesses_.stamps != nullptr) witnesses_.stamps->pause_between(pause);
    const auto begun = std::chrono::steady_clock::now();
    while (row_ < behind && outcome_.out_of_memory_row < 0) {
        if (row_ % kRowsToPause == 0 && pause) pause();
        if (row_ % kRowsBehind == 0) make_progress();
        make_row();
    }
    const auto ended = std::chrono::steady_clock::now();
    outcome_.seconds += std::chrono::duration<double>(ended - begun).count();
}

template <class Allocator>
ReplayOutcome Replay<Allocator>::end(const std::function<void()>& pause) {
    if (witnesses_.stamps != nullptr) {
        witnesses_.stamps->pause_between(pause);
        witnesses_.stamps->take_back_all();
    }
    row_ = log_.rows().size();
    return std::move(outcome_);
}

// See Note [Progress in a replay].
template <class Allocator>
void Replay<Allocator>::make_progress() {
    if (side_.advance) std::ranges::for_each(owners_, side_.advance);
}

template <class Allocator>
void Replay<Allocator>::make_row() {
    const std::size_t row = row_++;
    if (witnesses_.segments != nullptr) {
        witnesses_.segments->set_row(static_cast<std::int64_t>(row));
    }
    try {
        take_row(log_.rows()[row]);
    } catch (const OutOfDeviceMemory&) {
        outcome_.out_of_memory_row = static_cast<std::int64_t>(row);
        return;
    }
    const Sums sums = sums_of(allocator_);
    if (!sums.add_up || requested_ > sums.allocated || sums.allocated > sums.reserved) {
        throw std::logic_error("row " + std::to_string(row) +
                               ": requested <= allocated <= reserved bytes, which are active or "
                               "free, are needed, found " +
                               std::to_string(requested_) + " requested, " +
                               std::to_string(sums.allocated) + " allocated and " +
                               std::to_string(sums.reserved) + " reserved");
    }
    if (!has_series_) return;
    outcome_.reserved.push_back(static_cast<std::int64_t>(sums.reserved));
    outcome_.allocated.push_back(static_cast<std::int64_t>(sums.allocated));
}

template <class Allocator>
void Replay<Allocator>::take_row(const RequestLog::Row& row) {
    switch (row.what) {
        case RequestLog::What::nothing:
            break;
        case RequestLog::What::allocate:
            allocate(row.block);
            break;
        case RequestLog::What::free:
            free_now(row.block);
            break;
        case RequestLog::What::free_later:
            if (side_.begin) begin_use(row.block);
            break;
        case RequestLog::What::complete:
            if (side_.end) {
                end_use(row.block);
            } else {
                free_now(row.block);
            }
            break;
        case RequestLog::What::give_back:
            if (const PoolId pool = pool_of_row()) {
                end_pool(allocator_, pool);
            } else {
                allocator_.give_back();
            }
            break;
    }
}

template <class Allocator>
void Replay<Allocator>::allocate(std::uint32_t block) {
    const RequestLog::Request& request = log_.requests()[block];
    // This row has been counted already.
    if (!log_.visits().empty()) enter(allocator_, log_.visits()[row_ - 1]);
    if (!log_.pools().empty()) enter_pool(allocator_, pool_of_row());
    const Address address = allocator_.allocate(request.bytes, request.stream);
    outcome_.addresses[block] = address;
    owners_.insert(request.stream);
    requested_ += request.bytes;
    if (witnesses_.stamps != nullptr) witnesses_.stamps->hand_out(block, address, request.bytes);
}

template <class Allocator>
PoolId Replay<Allocator>::pool_of_row() const {
    return log_.pools().empty() ? 0 : log_.pools()[row_ - 1];
}

template <class Allocator>
void Replay<Allocator>::free_now(std::uint32_t block) {
    if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back(block);
    free(block);
}

template <class Allocator>
void Replay<Allocator>::free(std::uint32_t block) {
    requested_ -= log_.requests()[block].bytes;
    allocator_.free(outcome_.addresses[block]);
}

template <class Allocator>
void Replay<Allocator>::begin_use(std::uint32_t block) {
    const Stream stream = side_stream_[block] = numbers_.next();
    const Address address = outcome_.addresses[block];
    side_.begin(stream, address, log_.requests()[block].bytes);
    allocator_.use_on(address, stream);
    if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back_after(block, stream);
    free(block);
}

template <class Allocator>
void Replay<Allocator>::end_use(std::uint32_t block) {
    side_.end(side_stream_[block]);
    if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back(block);
    numbers_.give(side_stream_[block]);
    settle(allocator_);
}

template <class Allocator>
Stream Replay<Allocator>::SideNumbers::next() {
    if (unused_.empty()) return kFirstSideStream + made_++;
    const Stream stream = unused_.back();
    unused_.pop_back();
    return stream;
}

template class Replay<OnlineAllocator>;
template class Replay<PlannedAllocator>;

}  // namespace gapless::runtime
