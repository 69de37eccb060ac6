// The history of the core's blocks, for PyTorch's memory history and trackers.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passing_on.h"
#include "serving.h"

namespace gapless {

// Has each request and free while PyTorch records a history or has a tracker. Every free counts as
// complete at once, even if another stream still uses the block.
class EventHistory {
  public:
    bool is_watched() const { return is_watched_.load(std::memory_order_relaxed); }

    void record(bool enabled, CreateContextFn recorder, std::size_t most_entries,
                RecordContext when, bool clear, const std::vector<std::string>& skipped) {
        const std::lock_guard lock(mutex_);
        is_recording_ = enabled;
        recorder_ = recorder;
        most_entries_ = std::max<std::size_t>(most_entries, 1);
        when_ = enabled ? when : RecordContext::NEVER;
        skipped_.clear();
        for (const std::string& action : skipped) {
            skipped_.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
        }
        if (clear || !enabled) {
            for (auto& entries : entries_) entries.clear();
        }
        if (!enabled) contexts_.clear();
        is_watched_ = is_recording_ || !trackers_.empty();
    }

    void add(AllocatorTraceTracker tracker) {
        const std::lock_guard lock(mutex_);
        trackers_.push_back(std::move(tracker));
        is_watched_ = true;
    }

    void push_compile_context(const std::string& context) { compiling_.push_back(context); }
    void pop_compile_context() {
        if (!compiling_.empty()) compiling_.pop_back();
    }

    void allocated(const GaplessBlock& block, const std::string& metadata) {
        // Without the lock, because it may run Python.
        auto context = gather(RecordContext::STATE);
        const std::lock_guard lock(mutex_);
        if (context) contexts_[block.address] = context;
        note(TraceEntry::ALLOC, block, std::move(context), metadata);
    }

    void freed(const GaplessBlock& block, const std::string& metadata) {
        auto context = gather(RecordContext::ALL);
        std::shared_ptr<c10::GatheredContext> ended;  // declared first, destroyed after the unlock
        const std::lock_guard lock(mutex_);
        if (const auto found = contexts_.find(block.address); found != contexts_.end()) {
            ended = std::move(found->second);
            contexts_.erase(found);
        }
        if (!context) context = ended;
        note(TraceEntry::FREE_REQUESTED, block, context, metadata);
        note(TraceEntry::FREE_COMPLETED, block, std::move(context), metadata);
    }

    // Only PyTorch 2.14 and newer call this; older ones know no such action.
    void annotated(const GaplessBlock& block, const std::string& metadata) {
        auto context = gather(RecordContext::ALL);
        const auto action = c10::CachingDeviceAllocator::parseTraceEntryAction("annotate");
        const std::lock_guard lock(mutex_);
        note(action, block, std::move(context), metadata);
    }

    std::shared_ptr<c10::GatheredContext> context_of(std::uint64_t address) {
        const std::lock_guard lock(mutex_);
        const auto found = contexts_.find(address);
        return found == contexts_.end() ? nullptr : found->second;
    }

    // Merges the entries of each device into those of PyTorch, in the order of time.
    void merge_into(std::vector<std::vector<TraceEntry>>& traces) {
        const auto to_nanoseconds = clock_.makeConverter();
        const std::lock_guard lock(mutex_);
        for (std::size_t device = 0; device < std::min(traces.size(), entries_.size()); ++device) {
            auto& trace = traces[device];
            const auto before = static_cast<std::ptrdiff_t>(trace.size());
            trace.insert(trace.end(), entries_[device].begin(), entries_[device].end());
            for (auto entry = trace.begin() + before; entry != trace.end(); ++entry) {
                entry->time_.t_ = to_nanoseconds(entry->time_.approx_t_) / 1000;
            }
            std::inplace_merge(trace.begin(), trace.begin() + before, trace.end(),
                               [](const TraceEntry& one, const TraceEntry& other) {
                                   return one.time_.t_ < other.time_.t_;
                               });
        }
    }

  private:
    std::shared_ptr<c10::GatheredContext> gather(RecordContext needed) {
        CreateContextFn recorder = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (when_ >= needed) recorder = recorder_;
        }
        return recorder == nullptr ? nullptr : recorder();
    }

    void note(TraceEntry::Action action, const GaplessBlock& block,
              std::shared_ptr<c10::GatheredContext> context, const std::string& metadata) {
        if (when_ < RecordContext::ALLOC) context = nullptr;
        const TraceEntry entry(action, static_cast<DeviceIndex>(block.device), block.address,
                               block.requested_bytes, reinterpret_cast<void*>(block.stream),
                               MempoolId_t{0, 0}, c10::getApproximateTime(), std::move(context),
                               compiling_.empty() ? "" : compiling_.back(), metadata);
        for (const AllocatorTraceTracker& tracker : trackers_) tracker(entry);
        if (!is_recording_ || skipped_.contains(action)) return;
        std::deque<TraceEntry>& entries = entries_.at(static_cast<std::size_t>(block.device));
        entries.push_back(entry);
        if (entries.size() > most_entries_) entries.pop_front();
    }

    static inline thread_local std::vector<std::string> compiling_;

    std::atomic<bool> is_watched_{false};
    c10::ApproximateClockToUnixTimeConverter clock_;

    std::mutex mutex_;  // guards the members below
    bool is_recording_ = false;
    CreateContextFn recorder_ = nullptr;
    std::size_t most_entries_ = 1;
    RecordContext when_ = RecordContext::NEVER;
    std::set<TraceEntry::Action> skipped_;
    std::array<std::deque<TraceEntry>, GAPLESS_DEVICES> entries_;
    std::unordered_map<std::uint64_t, std::shared_ptr<c10::GatheredContext>> contexts_;
    std::vector<AllocatorTraceTracker> trackers_;
};

}  // namespace gapless
