// The decorator between an allocator of PyTorch's that is made up and an online allocator over
// simulated memory: one case and allocator by name, in a process of their own. Says nothing where
// all is well.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "allocator/serving_table.h"
#include "cuda_stand_in.h"
#include "decorator_checks.h"
#include "device/simulated_memory.h"
#include "fake_allocator.h"
#include "online/online_by_name.h"
#include "online/serving_online_allocator.h"

extern "C" const char* gapless_decorate(const GaplessServing* core);

namespace {

using namespace gapless::runtime;
using namespace c10::cuda::CUDACachingAllocator;
using namespace checks;
using c10::DataPtr;

constexpr std::size_t kCapacity = 96 * MiB;
constexpr Stream kSide = 5;

// Never destroyed, as in a process that trains.
struct Parts {
    explicit Parts(const std::string& name)
        : allocator(gapless::tests::make_online(name, counted)), serving(*allocator, counted) {}

    SimulatedMemory device{2 * MiB, kCapacity};
    CountingMemory counted{device};
    std::unique_ptr<OnlineAllocator> allocator;
    ServingOnlineAllocator serving;
};
Parts* parts = nullptr;

fake::FakeAllocator& inner() { return *fake::FakeAllocator::only; }

std::uint64_t number(const void* block) { return reinterpret_cast<std::uint64_t>(block); }
bool is_ours(const void* block) { return parts->serving.owns(number(block)); }

void check() {
    parts->serving.check();
    check_sums(parts->serving.statistics());
}

DataPtr allocate_on(std::uint64_t stream, std::size_t bytes) {
    stand_in::stream = stream;
    DataPtr block = get()->allocate(bytes);
    stand_in::stream = 0;
    return block;
}

void use_on(const DataPtr& block, std::uint64_t stream) {
    stand_in::stream = stream;
    get()->recordStream(block, c10::cuda::getCurrentCUDAStream(0));
    stand_in::stream = 0;
}

void sums_add_up() {
    std::mt19937 random(7);
    std::vector<DataPtr> blocks;
    int of_ours = 0;
    for (int step = 0; step < 4000; ++step) {
        if (random() % 5 < 2 && !blocks.empty()) {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            blocks.pop_back();
        } else if (blocks.size() < 24) {
            const std::size_t most = random() % 3 == 0 ? 4096 : 8 * MiB;
            try {
                blocks.push_back(allocate_on(random() % 3, 1 + random() % most));
            } catch (const c10::OutOfMemoryError&) {
                blocks.clear();
                continue;
            }
            std::memset(blocks.back().get(), step, 1);
            of_ours += is_ours(blocks.back().get());
            const Stream other = random() % 3;
            if (random() % 4 == 0) use_on(blocks.back(), other);
            if (random() % 4 == 0) parts->device.submit(other);
        }
        if (random() % 20 == 0) parts->device.finish(random() % 3);
        if (step % 500 == 499) get()->emptyCache();
        if (step % 100 == 0) check();
    }
    require(of_ours > 1000, "the online allocator serves");
    blocks.clear();
    check();
    parts->device.synchronize();
    get()->emptyCache();
    check();
    same(parts->device.created_bytes(), 0u, "bytes of the device in the end");
}

void a_snapshot_has_every_block_where_it_is() {
    std::mt19937 random(3);
    std::map<std::uint64_t, std::size_t> requested;
    std::vector<DataPtr> blocks;
    for (int i = 0; i < 300; ++i) {
        if (blocks.size() > 12) {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            requested.erase(number(blocks.back().get()));
            blocks.pop_back();
        }
        const std::size_t bytes = 1 + random() % (6 * MiB);
        blocks.push_back(get()->allocate(bytes));
        requested[number(blocks.back().get())] = bytes;
    }
    std::size_t found = 0;
    for (const SegmentInfo& segment : get()->snapshot().segments) {
        std::uint64_t address = segment.address;
        for (const auto& block : segment.blocks) {
            if (block.allocated) {
                ++found;
                same(block.requested_size, requested.at(address), "bytes that were asked for");
            }
            address += block.size;
        }
    }
    same(found, requested.size(), "blocks in the snapshot");
    for (const auto& [address, bytes] : requested) {
        std::size_t whole = 0;
        void* const base =
            get()->getBaseAllocation(reinterpret_cast<void*>(address + bytes - 1), &whole);
        require(number(base) <= address && address + bytes <= number(base) + whole,
                "a block lies in its segment");
    }
}

void what_the_online_allocator_has_no_memory_for_is_pytorchs() {
    DataPtr own = get()->allocate(80 * MiB);
    DataPtr theirs = get()->allocate(40 * MiB);
    require(is_ours(own.get()) && !is_ours(theirs.get()), "each serves what it can");
    check();
    own.clear();
    theirs.clear();
    check();
    require(is_ours(get()->allocate(40 * MiB).get()), "the online allocator is asked again");
}

void memory_that_runs_out_is_an_error_of_pytorchs() {
    DataPtr own = get()->allocate(80 * MiB), theirs = get()->allocate(40 * MiB);
    const std::string error = error_of([] { get()->allocate(60 * MiB); });
    require(error.find("CUDA out of memory. Tried 62914560") != std::string::npos,
            "the error is PyTorch's: " + error);
    require(error.find("Gapless has reserved") != std::string::npos, "and tells of us: " + error);
    same(get()->getDeviceStats(0).num_ooms, 1, "errors that the program saw");
    own.clear();
    require(get()->allocate(60 * MiB).get() != nullptr, "all goes on");
    check();
}

void the_cache_is_emptied() {
    for (int i = 0; i < 6; ++i) {
        DataPtr one = get()->allocate(5 * MiB), other = allocate_on(kSide, 700);
    }
    require(parts->device.created_bytes() > 0, "memory is kept");
    get()->emptyCache();
    same(parts->device.created_bytes(), 0u, "bytes of the device");
    same(get()->getDeviceStats(0).reserved_bytes[kAll].current, 0, "reserved bytes");
    check();
}

void a_block_waits_for_those_who_use_it() {
    DataPtr used = get()->allocate(6 * MiB);
    const void* const place = used.get();
    use_on(used, kSide);
    parts->device.submit(kSide, number(place), 6 * MiB);
    const std::optional<GaplessBlock> seen = parts->serving.block_of(number(place));
    require(seen && seen->other_streams == 1, "a block knows who uses it");
    same(seen->bytes, 6 * MiB, "bytes of the block");
    require(parts->serving.block_of(number(place) + 6 * MiB - 1)->address == seen->address,
            "it is known by any of its bytes");
    used.clear();
    same(get()->getDeviceStats(0).active_bytes[kAll].current, 6 * MiB, "active bytes");
    same(get()->getDeviceStats(0).allocated_bytes[kAll].current, 0, "allocated bytes");
    check();
    {
        DataPtr next = get()->allocate(6 * MiB);
        require(next.get() != place, "nobody else has it meanwhile");
    }
    parts->device.finish(kSide);
    DataPtr next = get()->allocate(512);
    same(get()->getDeviceStats(0).active_bytes[kAll].current, 512, "active bytes in the end");
    check();
}

void nothing_of_a_capture_is_the_online_allocators() {
    DataPtr plain = get()->allocate(6 * MiB), used = get()->allocate(6 * MiB);
    DataPtr captured = allocate_on(kSide, 6 * MiB);
    use_on(used, kSide);
    const std::uint64_t before = parts->device.calls();
    parts->device.set_captured(kSide, true);
    get()->beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    DataPtr of_graph = get()->allocate(6 * MiB);
    require(!is_ours(of_graph.get()), "PyTorch serves a capture");
    get()->emptyCache();
    same(parts->device.calls(), before, "calls of the device");
    for (DataPtr* block : {&plain, &used, &captured}) block->clear();
    check();
    same(get()->getDeviceStats(0).allocated_bytes[kSmall].current, 0, "small bytes");
    get()->endAllocateToPool(0, {0, 1});
    parts->device.set_captured(kSide, false);
    same(parts->device.captured_work(), 0u, "pieces of work that the graph got of us");
    require(is_ours(get()->allocate(MiB).get()), "the online allocator is asked again");
    check();
}

void a_fork_finds_no_lock_taken() {
    std::atomic<bool> ends{false};
    std::thread other([&] {
        while (!ends) parts->serving.free(parts->serving.allocate(4096, 1));
    });
    DataPtr block = get()->allocate(4096);
    for (int i = 0; i < 50; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            const bool is_freed = parts->serving.free(number(block.get()));
            const bool is_had = parts->serving.allocate(4096, 0) != 0;
            _exit(is_freed && is_had ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        same(status, 0, "status of a child");
    }
    ends = true;
    other.join();
}

void a_refusal_of_the_device_is_no_error_of_the_program() {
    for (std::uint64_t calls = 0; calls < 60; ++calls) {
        parts->device.fail_after(calls, 2);
        std::vector<DataPtr> blocks;
        for (int i = 0; i < 6; ++i) {
            blocks.push_back(allocate_on(i % 2 == 0 ? 0 : kSide, 100 + 3 * MiB * (i % 3)));
            use_on(blocks.back(), kSide);
        }
        blocks.clear();
        get()->emptyCache();
        parts->device.fail_after(0, 0);
        parts->serving.check();
    }
    get()->emptyCache();
    same(parts->device.created_bytes(), 0u, "bytes of the device in the end");
    check();
}

void a_device_has_one_allocator() {
    const std::string rule = "a second installation is refused";
    try {
        install(0, parts->serving);
        require(false, rule);
    } catch (const std::logic_error&) {
    }
}

const std::map<std::string, void (*)()> cases{
#define CASE(name) {#name, &name}
    CASE(sums_add_up),
    CASE(a_snapshot_has_every_block_where_it_is),
    CASE(what_the_online_allocator_has_no_memory_for_is_pytorchs),
    CASE(memory_that_runs_out_is_an_error_of_pytorchs),
    CASE(the_cache_is_emptied),
    CASE(a_block_waits_for_those_who_use_it),
    CASE(nothing_of_a_capture_is_the_online_allocators),
    CASE(a_fork_finds_no_lock_taken),
    CASE(a_refusal_of_the_device_is_no_error_of_the_program),
    CASE(a_device_has_one_allocator),
#undef CASE
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        for (const auto& [name, run] : cases) std::cout << name << "\n";
        return 0;
    }
    fake::FakeAllocator::only = new fake::FakeAllocator;
    allocator.store(&inner());
    parts = new Parts(arguments[2]);
    install(0, parts->serving);
    require(gapless_decorate(&serving_table()) == nullptr, "it is decorated");
    cases.at(arguments[1])();
    const GaplessStatistics own = parts->serving.statistics();
    same(inner().blocks(), 0u, "blocks of PyTorch's in the end");
    same(own.small.allocation.current + own.large.allocation.current, 0, "blocks in the end");
}
