// Observes requests, frees and steps: writes the allocator's log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/log_entry.h"
#include "allocator/planned_blocks.h"

namespace gapless::runtime {

// See Note [Observers are adaptors].
template <class Observed>
class LogAdaptor : public Observed {
  public:
    using Observed::Observed;

    Served allocate(Lock& lock, std::size_t bytes, Stream stream) {
        const Served served = Observed::allocate(lock, bytes, stream);
        if (served.block->request != kNoRequest) write(LogEntry::What::request, *served.block);
        return served;
    }
    void free(BoundedHeap& heap, Block& block) {
        if (block.request != kNoRequest) write(LogEntry::What::free, block);
        Observed::free(heap, block);
    }
    StepEnd begin_step(std::int32_t label) {
        const StepEnd between = Observed::begin_step(label);
        most_logged_ = kMostLogged;
        write({.what = LogEntry::What::step_begins, .bytes = label});
        return between;
    }
    StepEnd end_step() {
        const StepEnd end = Observed::end_step();
        write({.what = LogEntry::What::step_ends});
        return end;
    }

    std::vector<LogEntry> take_log() {
        // Reserves the length of the last log: growing the log step by step costs as much as
        // serving a request.
        std::vector<LogEntry> next;
        next.reserve(log_.size());
        return std::exchange(log_, std::move(next));
    }
    void drop_log() { log_.clear(); }

  private:
    // Entries of a log that the caller does not take. At this length the log is dropped. Before the
    // first step it is shorter: a program that never begins one would only fill memory. Guesses.
    static constexpr std::size_t kMostLogged = std::size_t{1} << 22;
    static constexpr std::size_t kMostBeforeSteps = std::size_t{1} << 16;

    void write(LogEntry::What what, const Block& block) {
        write({what, block.request, static_cast<std::int64_t>(block.requested),
               static_cast<std::int64_t>(block.stream), block.kind, block.slot});
    }
    void write(const LogEntry& entry) {
        if (log_.size() >= most_logged_) log_.clear();
        log_.push_back(entry);
    }

    std::vector<LogEntry> log_;
    std::size_t most_logged_ = kMostBeforeSteps;
};

}  // namespace gapless::runtime
