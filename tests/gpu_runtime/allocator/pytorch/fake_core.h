// A core over the host's memory: serves device 0 while it is told to, one address after the other.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "allocator/block_statistics.h"
#include "serving.h"

namespace fake {

struct Core {
    static constexpr std::uint64_t kArena = std::uint64_t{32} << 20;

    bool is_installed = true, is_serving = true, is_plain = false;
    bool is_serving_pools = false, has_memory_at_the_end = true;
    std::uint64_t base = reinterpret_cast<std::uint64_t>(std::aligned_alloc(1 << 21, kArena));
    std::map<std::uint64_t, GaplessBlock> blocks;
    gapless::runtime::BlockStatistics statistics;
    gapless::runtime::ReservedPart reserved_part{statistics};
    std::vector<std::string> calls;
    std::uint64_t idle = 0;  // bytes that it can give back
    std::uint64_t limit = ~std::uint64_t{0};
    std::size_t* device_bytes = nullptr;  // where what it has is counted

    void reserve(std::uint64_t bytes) {
        reserved_part.set(bytes > 0 ? 1 : 0, bytes);
        if (device_bytes != nullptr) *device_bytes = bytes;
    }
    GaplessSegment segment() const {
        const auto reserved = static_cast<std::uint64_t>(statistics.gauge().reserved_bytes);
        return {base, reserved, 0, 0, is_plain};
    }
};

inline Core core;

namespace table {

inline std::uint64_t allocate(std::int32_t device, std::uint64_t bytes, std::uint64_t stream) {
    core.calls.push_back("allocate " + std::to_string(bytes));
    if (!core.is_serving || !core.is_installed || device != 0) return 0;
    const std::uint64_t rounded = (bytes + 511) / 512 * 512;
    std::uint64_t address = core.base;
    for (const auto& [begin, block] : core.blocks) {
        if (address + rounded <= begin) break;
        address = begin + block.bytes;
    }
    const auto end = address + rounded - core.base;
    if (end > Core::kArena) return 0;
    if (end > static_cast<std::uint64_t>(core.statistics.gauge().reserved_bytes)) {
        core.reserve((end + (1 << 21) - 1) >> 21 << 21);
    }
    core.blocks[address] = {address, rounded, bytes, stream, 0, 0, true, true};
    core.statistics.allocated(bytes, rounded);
    return address;
}
inline bool begin_pool(std::int32_t, std::uint64_t) { return core.is_serving_pools; }
inline std::uint64_t allocate_in_pool(std::int32_t device, std::uint64_t pool, std::uint64_t bytes,
                                      std::uint64_t stream) {
    const std::uint64_t address = allocate(device, bytes, stream);
    core.calls.back() = "pool " + std::to_string(pool) + " on " + std::to_string(stream);
    return address;
}
inline bool end_capture(std::int32_t, std::uint64_t pool) {
    core.calls.push_back("end capture " + std::to_string(pool));
    return core.has_memory_at_the_end;
}
inline void end_pool(std::int32_t, std::uint64_t pool) {
    core.calls.push_back("end pool " + std::to_string(pool));
}
inline void passed_on(std::int32_t device, std::uint64_t, std::uint64_t bytes, std::uint64_t) {
    core.calls.push_back("passed on " + std::to_string(device) + " " + std::to_string(bytes));
}
inline bool free_block(std::uint64_t address) {
    const auto found = core.blocks.find(address);
    if (found == core.blocks.end()) return false;
    core.statistics.freed(found->second.requested_bytes, found->second.bytes);
    core.statistics.finished(found->second.requested_bytes, found->second.bytes);
    core.blocks.erase(found);
    return true;
}
inline bool owns(std::uint64_t address) { return address - core.base < Core::kArena; }
inline bool use_on(std::uint64_t address, std::uint64_t stream) {
    const auto found = core.blocks.find(address);
    if (found == core.blocks.end()) return false;
    core.calls.push_back("use on " + std::to_string(stream));
    ++found->second.other_streams;
    return true;
}
inline std::uint64_t give_back(std::int32_t device) {
    core.calls.push_back("give back " + std::to_string(device));
    const std::uint64_t given = core.idle;
    core.reserve(static_cast<std::uint64_t>(core.statistics.gauge().reserved_bytes) - given);
    core.idle = 0;
    return given;
}
inline void limit(std::int32_t, std::uint64_t bytes) { core.limit = bytes; }
inline void open_to(std::int32_t device, std::int32_t peer) {
    core.calls.push_back("open " + std::to_string(device) + " to " + std::to_string(peer));
}
inline bool block_of(std::uint64_t address, GaplessBlock* block) {
    const auto found = core.blocks.find(address);
    if (found == core.blocks.end()) return false;
    *block = found->second;
    return true;
}
inline bool segment_of(std::uint64_t address, GaplessSegment* segment) {
    if (!owns(address)) return false;
    *segment = core.segment();
    return true;
}
inline void visit(std::int32_t device, const GaplessVisitor* visitor) {
    const GaplessSegment segment = core.segment();
    if (device != 0 || segment.bytes == 0) return;
    visitor->segment(visitor->context, &segment);
    std::uint64_t address = segment.address;
    const auto visit_free = [&](std::uint64_t end) {
        const GaplessBlock free{address, end - address, 0, 0, 0, 0, false, false};
        if (end > address) visitor->block(visitor->context, &free);
    };
    for (const auto& [begin, block] : core.blocks) {
        visit_free(begin);
        visitor->block(visitor->context, &block);
        address = begin + block.bytes;
    }
    visit_free(segment.address + segment.bytes);
}
inline const GaplessGauge* gauge(std::int32_t device) {
    return device == 0 && core.is_installed ? &core.statistics.gauge() : nullptr;
}
inline void statistics(std::int32_t device, GaplessStatistics* found) {
    *found = device == 0 ? core.statistics.sums() : GaplessStatistics{};
}
inline void reset_peaks(std::int32_t) { core.statistics.reset_peaks(); }

}  // namespace table

inline const GaplessServing serving{
    GAPLESS_SERVING_VERSION,
    sizeof(GaplessServing),
    table::allocate,
    table::begin_pool,
    table::allocate_in_pool,
    table::end_capture,
    table::end_pool,
    table::passed_on,
    table::free_block,
    table::owns,
    table::use_on,
    table::give_back,
    table::limit,
    table::open_to,
    table::block_of,
    table::segment_of,
    table::visit,
    table::gauge,
    table::statistics,
    table::reset_peaks,
};

}  // namespace fake
