// The memory of captured graphs that never replay at the same time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/block_statistics.h"
#include "allocator/graph_pool.h"
#include "allocator/shadow_allocator.h"
#include "online/online_allocator.h"

namespace gapless::runtime {

// Bytes and counts of captured graphs.
struct GraphFigures {
    std::int64_t pools = 0;
    std::int64_t scratch_bytes = 0;    // shared by all graphs
    std::int64_t own_bytes = 0;        // what outlives each graph, in whole pages
    std::int64_t allocated_bytes = 0;  // of blocks in use
    // Bytes that PyTorch's allocator would reserve for the same pools.
    std::int64_t default_bytes = 0, expandable_bytes = 0;
    std::int64_t live_peak = 0;  // the most bytes of blocks in use at once
    // PyTorch's are pools that were filled before a capture, requests of work that is not captured,
    // and those that found no memory.
    std::int64_t filled_pools = 0, eager_requests = 0, refused_requests = 0;
};

// See Note [Frames of captured graphs]. Pools that begin while graphs are exclusive are served from
// here; all others are PyTorch's.
class GraphMemory {
  public:
    GraphMemory(DeviceMemory& memory, BlockStatistics& statistics)
        : memory_(memory), statistics_(statistics), reserved_part_(statistics) {}

    void set_exclusive(bool is_exclusive) {
        is_exclusive_ = is_exclusive;
        if (is_exclusive) open_shadow();
    }
    // Requests that come to this pool are of eager work: no graph replays meanwhile.
    void lend(PoolId pool) {
        open_shadow();
        pools_.try_emplace(pool, memory_, scratch_, true).first->second.is_ours = true;
    }
    // Requests may come to a pool, which is no 0. Returns false if PyTorch serves the pool.
    bool begin(PoolId pool) {
        const auto found = pools_.find(pool);
        if (found != pools_.end()) found->second.has_ended = false;
        if (found != pools_.end() || !is_exclusive_) return found != pools_.end();
        pools_.try_emplace(pool, memory_, scratch_, false);
        return true;
    }
    // Returns 0 if PyTorch's allocator should serve the request. The first request of a pool
    // decides who serves the pool: a program fills some before any capture. `make_room` waits for
    // the device, which no capture may do, and gives back idle memory.
    Address allocate(PoolId pool, std::size_t bytes, Stream stream,
                     const std::function<void()>& make_room) {
        const auto found = pools_.find(pool);
        if (found == pools_.end() || found->second.is_pytorchs) return 0;
        State& state = found->second;
        GraphPool::Entry entry;
        try {
            if (!state.pool.is_eager() && !memory_.is_captured(stream)) {
                state.is_pytorchs = !state.is_ours;
                ++(state.is_ours ? figures_.eager_requests : figures_.filled_pools);
                return 0;
            }
            try {
                entry = state.pool.place(bytes, stream, spare_bytes(state));
            } catch (const OutOfDeviceMemory&) {
                if (!state.pool.is_eager()) throw;
                make_room();
                entry = state.pool.place(bytes, stream, 0);
            }
        } catch (const std::exception&) {
            ++figures_.refused_requests;
            count_reserved();
            return 0;
        }
        state.is_ours = true;
        GraphPool::Range& block = entry->second;
        block.in_shadow = shadow_->allocate(bytes, stream, pool);
        figures_.allocated_bytes += static_cast<std::int64_t>(block.bytes);
        figures_.live_peak = std::max(figures_.live_peak, figures_.allocated_bytes);
        statistics_.allocated(bytes, block.bytes);
        count_reserved();
        return entry->first;
    }
    // Returns the requested bytes of a block that was in use, or nothing.
    std::optional<std::size_t> free(Address address) {
        const auto [pool, block] = find(address);
        if (block == nullptr) return std::nullopt;
        const std::size_t requested = block->requested;
        shadow_->free(block->in_shadow);
        figures_.allocated_bytes -= static_cast<std::int64_t>(block->bytes);
        statistics_.freed(requested, block->bytes);
        statistics_.finished(requested, block->bytes);
        pool->free(address);
        return requested;
    }
    bool use_on(Address address, Stream stream) {
        const auto [pool, block] = find(address);
        if (block != nullptr && stream != block->stream) block->is_shared = true;
        return block != nullptr;
    }
    bool is_capturing(PoolId pool) const {
        const auto found = pools_.find(pool);
        return found != pools_.end() && found->second.pool.is_capturing();
    }
    // Waits for the device, without the lock.
    void await() { memory_.synchronize(); }
    bool must_wait(PoolId pool) const { return pools_.at(pool).pool.must_wait(); }
    // The device is idle, or must_wait() said that it need not be. Throws what
    // GraphPool::end_capture() throws.
    void end_capture(PoolId pool, bool is_idle) {
        std::size_t others = 0;
        for (const auto& [id, state] : pools_) {
            if (id != pool) others = std::max(others, state.pool.scratch_frames());
        }
        pools_.at(pool).pool.end_capture(others, is_idle);
        trim();
    }
    // The graphs of a pool are gone. Its memory goes back with the next that does, as in PyTorch.
    void end(PoolId pool) {
        const auto found = pools_.find(pool);
        if (found != pools_.end()) found->second.has_ended = true;
    }
    // Returns true if give_back() has something to do.
    bool is_idle() const {
        return std::ranges::any_of(pools_, [](const auto& each) { return each.second.is_idle(); });
    }
    // The device is idle. Gives back the memory of pools that have ended and of eager work that has
    // ended, and returns its bytes. Throws DeviceCallError.
    std::size_t give_back() {
        const std::size_t before = reserved_bytes();
        for (auto entry = pools_.begin(); entry != pools_.end();) {
            const auto current = entry++;
            auto& [id, state] = *current;
            if (state.has_ended && state.pool.is_capturing()) end_capture(id, true);
            if (!state.is_idle() || !state.pool.give_back()) continue;
            shadow_->end_pool(id);
            pools_.erase(current);
        }
        trim();
        return before - std::min(before, reserved_bytes());
    }

    bool owns(Address address) const {
        return std::ranges::any_of(
            pools_, [&](const auto& each) { return each.second.pool.owns(address); });
    }
    std::optional<GaplessBlock> block_of(Address address) const {
        for (const auto& [id, state] : pools_) {
            if (const auto block = state.pool.block_of(address)) return block;
        }
        return std::nullopt;
    }
    std::vector<SegmentOfBlocks> segments() const {
        std::vector<SegmentOfBlocks> all;
        for (const auto& [id, state] : pools_) {
            const std::vector<SegmentOfBlocks> its = state.pool.segments();
            all.insert(all.end(), its.begin(), its.end());
        }
        return all;
    }
    std::size_t reserved_bytes() const {
        std::size_t frames = scratch_.size();
        for (const auto& [id, state] : pools_) frames += state.pool.own_frames();
        return frames * memory_.page_bytes();
    }
    std::int64_t allocated_bytes() const { return figures_.allocated_bytes; }
    std::int64_t default_bytes() const { return shadow_ ? shadow_->default_bytes() : 0; }
    std::int64_t expandable_bytes() const { return shadow_ ? shadow_->expandable_bytes() : 0; }
    GraphFigures figures() const {
        GraphFigures figures = figures_;
        for (const auto& [id, state] : pools_) figures.pools += state.is_ours;
        figures.scratch_bytes = static_cast<std::int64_t>(scratch_.size() * memory_.page_bytes());
        figures.own_bytes = static_cast<std::int64_t>(reserved_bytes()) - figures.scratch_bytes;
        figures.default_bytes = default_bytes();
        figures.expandable_bytes = expandable_bytes();
        return figures;
    }

  private:
    struct State {
        State(DeviceMemory& memory, std::vector<Pages>& scratch, bool is_eager)
            : pool(memory, scratch, is_eager) {}
        bool is_idle() const { return has_ended || (pool.is_eager() && !pool.is_capturing()); }

        GraphPool pool;
        bool is_ours = false, is_pytorchs = false;  // neither before the first request
        bool has_ended = false;
    };

    std::pair<GraphPool*, GraphPool::Range*> find(Address address) {
        for (auto& [id, state] : pools_) {
            if (auto* block = state.pool.find(address)) return {&state.pool, block};
        }
        return {nullptr, nullptr};
    }
    void open_shadow() {
        if (!shadow_) shadow_.emplace(memory_.total_bytes());
    }
    // Returns how much more eager work may reserve before its frames move: as much as PyTorch
    // would.
    std::size_t spare_bytes(const State& state) const {
        const auto by_pytorch =
            static_cast<std::size_t>(std::min(default_bytes(), expandable_bytes()));
        if (!state.pool.is_eager() || by_pytorch <= reserved_bytes()) return 0;
        return by_pytorch - reserved_bytes();
    }
    // Releases the scratch frames that no pool needs.
    void trim() {
        std::size_t needed = 0;
        for (const auto& [id, state] : pools_) {
            needed = std::max(needed, state.pool.scratch_frames());
        }
        for (; scratch_.size() > needed; scratch_.pop_back()) {
            memory_.release_pages(scratch_.back());
        }
        count_reserved();
    }
    void count_reserved() {
        if (reserved_bytes() == counted_) return;
        counted_ = reserved_bytes();
        reserved_part_.set(segments().size(), counted_);
    }

    DeviceMemory& memory_;
    BlockStatistics& statistics_;
    ReservedPart reserved_part_;
    std::size_t counted_ = 0;                // reserved bytes that the statistics know
    std::optional<ShadowAllocator> shadow_;  // of these pools
    std::vector<Pages> scratch_;             // the list of all pools
    std::map<PoolId, State> pools_;
    GraphFigures figures_;  // counts, and the bytes of blocks in use
    bool is_exclusive_ = false;
};

}  // namespace gapless::runtime
