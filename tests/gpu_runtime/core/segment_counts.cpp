// Random programs on two streams, one with an arena and memory that moves and is given back, one on
// an online allocator: PyTorch's figures of segments and of reserved bytes are to be their number
// and their sum in a snapshot. Ends with 1 and a line on stderr where they are not.

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "allocator/planned_allocator.h"
#include "device/counting_memory.h"
#include "device/simulated_memory.h"
#include "online/pytorch_caching.h"
#include "online/serving_online_allocator.h"

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = 4096;
constexpr int kTurns = 4000;
constexpr int kTurnsAPlan = 500;
constexpr int kTurnsAGift = 97;
constexpr int kTurnsAStep = 100;
constexpr std::size_t kOnlineBytes = std::size_t{8} << 20;

bool agree(const ServingAllocator& allocator, std::size_t& most) {
    const GaplessStatsOfSize sums = allocator.statistics().large;
    const auto counted = static_cast<std::size_t>(sums.segment.current);
    const auto reserved = static_cast<std::size_t>(sums.reserved_bytes.current);
    const std::vector<SegmentOfBlocks> segments = allocator.segments();
    std::size_t bytes = 0;
    for (const SegmentOfBlocks& found : segments) bytes += found.segment.bytes;
    most = std::max(most, segments.size());
    if (counted == segments.size() && reserved == bytes) return true;
    std::fprintf(stderr, "segments: %zu counted, %zu found; %zu bytes reserved, %zu found\n",
                 counted, segments.size(), reserved, bytes);
    return false;
}

int run(bool is_plain) {
    SimulatedMemory memory(kPage, 8192 * kPage);
    PlannedAllocator allocator(memory, is_plain);
    std::mt19937 random(7);
    std::vector<Address> blocks;
    std::size_t most = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
        if (turn % kTurnsAPlan == kTurnsAPlan - 1) {
            const std::size_t bytes = (1 + random() % 64) * kPage;
            allocator.adopt({{-1, {0}, {static_cast<std::int64_t>(bytes)}, {0}, {0}}}, bytes);
        }
        if (turn % kTurnsAGift == 0) allocator.give_back();
        if (turn % kTurnsAStep == 0) allocator.begin_step(0);
        if (turn % kTurnsAStep == kTurnsAStep / 2) allocator.end_step(true);
        if (blocks.size() < 40 || random() % 2 == 0) {
            const std::size_t bytes = 1 + random() % (12 * kPage);
            blocks.push_back(allocator.allocate(bytes, random() % 2));
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            allocator.free(blocks.back());
            blocks.pop_back();
        }
        if (!agree(allocator, most)) return 1;
    }
    for (const Address address : blocks) allocator.free(address);
    allocator.adopt({}, 0);
    if (!agree(allocator, most)) return 1;
    if (most < 4) {
        std::fprintf(stderr, "segments: no holes were made\n");
        return 1;
    }
    return 0;
}

int run_online() {
    SimulatedMemory simulated(kPage, std::size_t{1} << 32);
    CountingMemory memory(simulated);
    PytorchCaching caching(memory, PytorchSettings());
    ServingOnlineAllocator allocator(caching, memory);
    std::mt19937 random(7);
    std::vector<Address> blocks;
    std::size_t most = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
        if (turn % kTurnsAPlan == 0) allocator.give_back();
        if (blocks.size() < 20 || random() % 2 == 0) {
            blocks.push_back(allocator.allocate(1 + random() % kOnlineBytes, random() % 2));
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            allocator.free(blocks.back());
            blocks.pop_back();
        }
        if (!agree(allocator, most)) return 1;
    }
    return 0;
}

}  // namespace

int main() {
    if (run(false) != 0 || run(true) != 0 || run_online() != 0) return 1;
    std::puts("segment_counts: passed");
    return 0;
}
