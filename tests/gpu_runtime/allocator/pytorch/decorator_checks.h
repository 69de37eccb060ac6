// What programs about the decorator hold it against.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "fake_allocator.h"
#include "serving.h"

namespace checks {

using namespace c10::cuda::CUDACachingAllocator;
using c10::CachingAllocator::StatArray;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t kAll = 0, kSmall = 1, kLarge = 2;

inline void require(bool holds, const std::string& rule) {
    if (holds) return;
    std::cerr << "does not hold: " << rule << "\n";
    std::exit(1);
}

template <class Value, class Expected>
void same(const Value& value, const Expected& expected, const std::string& what) {
    if (value == static_cast<Value>(expected)) return;
    std::cerr << what << ": " << value << ", expected " << expected << "\n";
    std::exit(1);
}

template <class Call>
std::string error_of(Call call) {
    try {
        call();
    } catch (const c10::Error& error) {
        return error.what_without_backtrace();
    }
    return "no error";
}

// Current values of both parts add up.
inline void check_sums(const GaplessStatistics& own) {
    DeviceStats both = get()->getDeviceStats(0);
    const DeviceStats of_inner = fake::FakeAllocator::only->getDeviceStats(0);
    const auto adds_up = [&](StatArray DeviceStats::* member,
                             GaplessStat GaplessStatsOfSize::* part, const std::string& what) {
        const auto& [all, small, large] = both.*member;
        const auto& [inner_all, inner_small, inner_large] = of_inner.*member;
        same(small.current, inner_small.current + (own.small.*part).current, what + " small");
        same(large.current, inner_large.current + (own.large.*part).current, what + " large");
        same(all.current, small.current + large.current, what + " all");
        same(all.allocated, inner_all.allocated + (own.small.*part).total + (own.large.*part).total,
             what + " ever");
        same(all.allocated - all.freed, all.current, what + " ever less freed");
        require(all.peak >= all.current, what + ": the peak is no less than what is current");
        require(all.peak >= inner_all.peak, what + ": the peak is no less than PyTorch's");
    };
    adds_up(&DeviceStats::allocation, &GaplessStatsOfSize::allocation, "allocations");
    adds_up(&DeviceStats::active, &GaplessStatsOfSize::active, "active");
    adds_up(&DeviceStats::segment, &GaplessStatsOfSize::segment, "segments");
    adds_up(&DeviceStats::requested_bytes, &GaplessStatsOfSize::requested_bytes, "requested");
    adds_up(&DeviceStats::allocated_bytes, &GaplessStatsOfSize::allocated_bytes, "allocated");
    adds_up(&DeviceStats::active_bytes, &GaplessStatsOfSize::active_bytes, "active bytes");
    adds_up(&DeviceStats::reserved_bytes, &GaplessStatsOfSize::reserved_bytes, "reserved");

    // A snapshot says the same.
    std::int64_t allocated = 0, active = 0, requested = 0, reserved = 0, segments = 0;
    for (const SegmentInfo& segment : get()->snapshot().segments) {
        std::size_t covered = 0;
        for (const auto& block : segment.blocks) {
            covered += block.size;
            allocated += block.allocated ? static_cast<std::int64_t>(block.size) : 0;
            active += block.active ? static_cast<std::int64_t>(block.size) : 0;
            requested += static_cast<std::int64_t>(block.requested_size);
        }
        same(covered, segment.total_size, "bytes of the blocks of a segment");
        reserved += static_cast<std::int64_t>(segment.total_size);
        ++segments;
    }
    same(allocated, both.allocated_bytes[kAll].current, "allocated in the snapshot");
    same(active, both.active_bytes[kAll].current, "active in the snapshot");
    same(requested, both.requested_bytes[kAll].current, "requested in the snapshot");
    same(reserved, both.reserved_bytes[kAll].current, "reserved in the snapshot");
    same(segments, both.segment[kAll].current, "segments in the snapshot");
}

}  // namespace checks
