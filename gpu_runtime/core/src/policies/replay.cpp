#include "policies/replay.h"

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
constexpr std::size_t kRowsToPause = std::size_t{1} << 16;

// Their numbers: as few as possible, each for one block at a time.
class SideNumbers {
  public:
    Stream next() {
        if (unused_.empty()) return kFirstSideStream + made_++;
        const Stream stream = unused_.back();
        unused_.pop_back();
        return stream;
    }
    void give(Stream stream) { unused_.push_back(stream); }

  private:
    Stream made_ = 0;
    std::vector<Stream> unused_;
};

class Replay {
  public:
    Replay(const RequestLog& log, OnlineAllocator& allocator, const SideStreams& side,
           const ReplayWitnesses& witnesses)
        : log_(log), allocator_(allocator), side_(side), witnesses_(witnesses) {
        outcome_.addresses.resize(log.requests().size());
        side_stream_.resize(log.requests().size());
    }

    ReplayOutcome run(const ReplayTerms& terms, const std::function<void()>& pause) {
        const auto begun = std::chrono::steady_clock::now();
        auto late = begun;
        const std::size_t count = log_.rows().size();
        if (terms.has_series) {
            outcome_.reserved.reserve(count);
            outcome_.allocated.reserve(count);
        }
        const OnlineFigures& figures = allocator_.figures();
        for (std::size_t i = 0; i < count; ++i) {
            if (i % kRowsToPause == 0 && pause) pause();
            if (std::cmp_equal(i, terms.late_row)) late = std::chrono::steady_clock::now();
            if (witnesses_.segments != nullptr) {
                witnesses_.segments->set_row(static_cast<std::int64_t>(i));
            }
            try {
                take_row(log_.rows()[i]);
            } catch (const OutOfDeviceMemory&) {
                outcome_.out_of_memory_row = static_cast<std::int64_t>(i);
                break;
            }
            if (figures.reserved_bytes != figures.active_bytes + figures.free_bytes) {
                throw std::logic_error("row " + std::to_string(i) +
                                       ": reserved is what is active or free");
            }
            if (terms.has_series) {
                outcome_.reserved.push_back(static_cast<std::int64_t>(figures.reserved_bytes));
                outcome_.allocated.push_back(static_cast<std::int64_t>(figures.allocated_bytes));
            }
        }
        if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back_all();
        const auto ended = std::chrono::steady_clock::now();
        outcome_.seconds = std::chrono::duration<double>(ended - begun).count();
        outcome_.late_seconds = std::chrono::duration<double>(ended - late).count();
        return std::move(outcome_);
    }

  private:
    void take_row(const RequestLog::Row& row) {
        switch (row.what) {
            case RequestLog::What::nothing:
                break;
            case RequestLog::What::allocate: {
                const RequestLog::Request& request = log_.requests()[row.block];
                const Address address = allocator_.allocate(request.bytes, request.stream);
                outcome_.addresses[row.block] = address;
                if (witnesses_.stamps != nullptr) {
                    witnesses_.stamps->hand_out(row.block, address, request.bytes);
                }
                break;
            }
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
                allocator_.give_back();
                break;
        }
    }

    void free_now(std::uint32_t block) {
        if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back(block);
        allocator_.free(outcome_.addresses[block]);
    }

    void begin_use(std::uint32_t block) {
        const Stream stream = side_stream_[block] = numbers_.next();
        const Address address = outcome_.addresses[block];
        side_.begin(stream, address, log_.requests()[block].bytes);
        allocator_.use_on(address, stream);
        if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back_after(block, stream);
        allocator_.free(address);
    }

    void end_use(std::uint32_t block) {
        side_.end(side_stream_[block]);
        if (witnesses_.stamps != nullptr) witnesses_.stamps->take_back(block);
        numbers_.give(side_stream_[block]);
        allocator_.settle();
    }

    const RequestLog& log_;
    OnlineAllocator& allocator_;
    const SideStreams& side_;
    const ReplayWitnesses& witnesses_;
    ReplayOutcome outcome_;
    SideNumbers numbers_;
    std::vector<Stream> side_stream_;  // by block
};

}  // namespace

SideStreams side_streams_of(DeviceMemory& memory) {
    if (auto* const ledger = dynamic_cast<LedgerMemory*>(&memory)) {
        return {[](Stream, Address, std::size_t) {},
                [=](Stream stream) { ledger->finish(stream); }};
    }
    if (auto* const simulated = dynamic_cast<SimulatedMemory*>(&memory)) {
        return {[=](Stream stream, Address address, std::size_t bytes) {
                    simulated->submit(stream, address, bytes);
                },
                [=](Stream stream) { simulated->finish(stream); }};
    }
    if (auto* const replayed = dynamic_cast<ReplayedStreams*>(&memory)) {
        return {[](Stream, Address, std::size_t) {},
                [=](Stream stream) { replayed->finish(stream); }};
    }
    return {};
}

ReplayOutcome replay(const RequestLog& log, OnlineAllocator& allocator, const SideStreams& side,
                     const ReplayWitnesses& witnesses, const ReplayTerms& terms,
                     const std::function<void()>& pause) {
    return Replay(log, allocator, side, witnesses).run(terms, pause);
}

}  // namespace gapless::runtime
