// The decorator between an allocator of PyTorch's and a core that are both made up: one case by
// name, in a process of its own. Says nothing where all is well.
#include <c10/core/Allocator.h>

#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda_stand_in.h"
#include "decorator_checks.h"
#include "fake_allocator.h"
#include "fake_core.h"

extern "C" const char* gapless_decorate(const GaplessServing* core);
extern "C" void gapless_time_requests(bool is_on, std::int64_t* so_far);

namespace {

using fake::core;
using namespace c10::cuda::CUDACachingAllocator;
using namespace checks;
using c10::DataPtr;
using c10::DeviceAllocator;

fake::FakeAllocator& inner() { return *fake::FakeAllocator::only; }

bool is_ours(const void* block) {
    return fake::table::owns(reinterpret_cast<std::uint64_t>(block));
}

void frees_go_where_blocks_came_from() {
    DataPtr ours = get()->allocate(1000);
    core.is_serving = false;
    DataPtr theirs = get()->allocate(1000);
    require(is_ours(ours.get()) && !is_ours(theirs.get()), "each part serves one");
    std::memset(ours.get(), 1, 1000);
    std::memset(theirs.get(), 1, 1000);
    same(core.blocks.size(), 1u, "blocks of ours");
    same(inner().blocks(), 1u, "blocks of PyTorch's");
    ours.clear();
    theirs.clear();
    same(core.blocks.size(), 0u, "blocks of ours in the end");
    same(inner().blocks(), 0u, "blocks of PyTorch's in the end");
    require(get()->allocate(0).get() == nullptr, "no bytes are no block");
    require(core.calls.back() == "passed on 0 1000", "no bytes are asked of nobody");
}

void raw_blocks_are_freed_by_any_of_the_ways() {
    c10::Allocator& general = *get();
    for (const bool serves : {true, false}) {
        core.is_serving = serves;
        get()->raw_delete(get()->raw_alloc(700));
        get()->raw_delete(get()->raw_alloc_with_stream(700, reinterpret_cast<cudaStream_t>(3)));
        general.raw_deallocate(general.raw_allocate(700));
        get()->raw_deleter()(get()->raw_alloc(700));
        DataPtr block = get()->allocate(10);
        require(block.get_deleter() == get()->raw_deleter(), "all blocks have the same deleter");
    }
    get()->raw_delete(nullptr);
    get()->raw_deleter()(nullptr);
    same(core.blocks.size() + inner().blocks(), 0u, "blocks in the end");
}

void blocks_from_before_are_freed() {
    // Made by main() before the decoration.
    same(inner().blocks(), 1u, "blocks from before");
}

void requests_say_whose_stream() {
    stand_in::stream = 9;
    DataPtr block = get()->allocate(512);
    same(core.blocks.begin()->second.stream, 9u, "stream");
    void* raw = get()->raw_alloc_with_stream(512, reinterpret_cast<cudaStream_t>(4));
    same(core.blocks.at(reinterpret_cast<std::uint64_t>(raw)).stream, 4u, "stream of a raw one");
    get()->raw_delete(raw);
}

void sums_add_up() {
    std::mt19937 random(7);
    std::vector<DataPtr> blocks;
    for (int step = 0; step < 3000; ++step) {
        core.is_serving = random() % 2 == 0;
        if (random() % 5 < 2 && !blocks.empty()) {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            blocks.pop_back();
        } else if (blocks.size() < 24) {
            blocks.push_back(get()->allocate(1 + random() % (random() % 3 ? 4096 : 2 * MiB)));
        }
        if (step % 100 == 0) check_sums(core.statistics.sums());
    }
    blocks.clear();
    check_sums(core.statistics.sums());
    get()->resetAccumulatedStats(0);
    const DeviceStats stats = get()->getDeviceStats(0);
    same(stats.allocation[kAll].allocated, 0, "allocations since the reset");
    same(stats.allocated_bytes[kAll].freed, 0, "freed since the reset");
}

// What both have together at any time, written down beside.
class Witness {
  public:
    void look() {
        std::int64_t allocated = core.statistics.gauge().allocated_bytes;
        std::int64_t reserved = core.statistics.gauge().reserved_bytes;
        const DeviceStats stats = inner().getDeviceStats(0);
        allocated += stats.allocated_bytes[kAll].current;
        reserved += stats.reserved_bytes[kAll].current;
        allocated_peak = std::max(allocated_peak, allocated);
        reserved_peak = std::max(reserved_peak, reserved);
    }
    void check() const {
        const DeviceStats stats = get()->getDeviceStats(0);
        same(stats.allocated_bytes[kAll].peak, allocated_peak, "peak of allocated bytes");
        same(stats.reserved_bytes[kAll].peak, reserved_peak, "peak of reserved bytes");
    }

    std::int64_t allocated_peak = 0, reserved_peak = 0;
};

void peaks_are_those_of_both() {
    for (unsigned seed = 0; seed < 40; ++seed) {
        std::mt19937 random(seed);
        get()->resetPeakStats(0);
        Witness witness;
        witness.look();
        std::vector<DataPtr> blocks;
        for (int step = 0; step < 400; ++step) {
            core.is_serving = random() % 3 == 0;
            if (step % 80 == 40) blocks.clear();
            if (random() % 4 == 0 && !blocks.empty()) {
                std::swap(blocks[random() % blocks.size()], blocks.back());
                blocks.pop_back();
            } else if (blocks.size() < 20) {
                blocks.push_back(get()->allocate(1 + random() % MiB));
                witness.look();
            }
            if (step % 97 == 0 && core.blocks.empty()) {
                core.idle = static_cast<std::uint64_t>(core.statistics.gauge().reserved_bytes);
                get()->emptyCache();
            }
            if (seed % 2 == 0 && step % 50 == 0) witness.check();
        }
        witness.check();
    }
}

void reserved_bytes_that_were_given_back_do_not_count_later() {
    get()->allocate(8 * MiB);
    core.idle = 8 * MiB;
    get()->emptyCache();
    core.is_serving = false;
    DataPtr theirs = get()->allocate(8 * MiB);
    core.is_serving = true;
    DataPtr ours = get()->allocate(512);
    same(get()->getDeviceStats(0).reserved_bytes[kAll].peak, 10 * MiB, "peak");
}

void what_pytorch_serves_while_the_core_has_nothing_counts_later() {
    get()->allocate(MiB);
    core.is_serving = false;
    DataPtr theirs = get()->allocate(8 * MiB);
    core.is_serving = true;
    get()->allocate(512);
    same(get()->getDeviceStats(0).allocated_bytes[kAll].peak, 8 * MiB + 512, "peak");
}

void nothing_is_asked_below_pytorchs_own_peak() {
    core.is_serving = false;
    get()->allocate(32 * MiB);
    core.is_serving = true;
    get()->allocate(512);
    const int before = inner().asked_for_statistics;
    std::vector<DataPtr> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(get()->allocate(64 << 10));
    same(inner().asked_for_statistics, before, "questions");
}

void a_checkpoint_that_is_restored_counts() {
    DataPtr own = get()->allocate(512);
    CheckpointDelta delta = get()->setCheckpointPoolState(0, nullptr);
    DataPtr another = get()->allocate(512);
    delta.dataptrs_allocd.clear();
    same(get()->getDeviceStats(0).allocated_bytes[kAll].peak, 3 * 512, "peak");
}

void pytorch_is_asked_for_its_sums_only_at_records() {
    DataPtr weights;
    {
        core.is_serving = false;
        weights = get()->allocate(4 * MiB);
        core.is_serving = true;
    }
    const auto step = [] {
        std::vector<DataPtr> blocks;
        for (int i = 0; i < 50; ++i) blocks.push_back(get()->allocate(64 << 10));
    };
    step();
    const int before = inner().asked_for_statistics;
    for (int i = 0; i < 10; ++i) step();
    same(inner().asked_for_statistics, before, "questions in steps like the one before");
    // And none where the core serves nothing.
    core.is_serving = false;
    for (int i = 0; i < 100; ++i) DataPtr block = get()->allocate(MiB);
    same(inner().asked_for_statistics, before, "questions where nothing is served");
}

void peaks_begin_anew() {
    {
        DataPtr one = get()->allocate(8 * MiB);
    }
    DataPtr small = get()->allocate(MiB);
    get()->resetPeakStats(0);
    const DeviceStats stats = get()->getDeviceStats(0);
    same(stats.allocated_bytes[kAll].peak, MiB, "peak of allocated bytes");
    same(stats.allocation[kAll].peak, 1, "peak of allocations");
    same(stats.requested_bytes[kSmall].peak, MiB, "peak of small requested bytes");
    same(stats.reserved_bytes[kLarge].peak, 8 * MiB, "peak of reserved bytes");
}

void free_bytes_beside_live_ones_are_not_releasable() {
    DataPtr first = get()->allocate(MiB), second = get()->allocate(MiB);
    first.clear();
    DeviceStats stats = get()->getDeviceStats(0);
    same(stats.inactive_split_bytes[kAll].current, MiB, "inactive bytes");
    same(stats.inactive_split[kAll].current, 1, "inactive blocks");
    second.clear();
    same(get()->getDeviceStats(0).inactive_split_bytes[kAll].current, 0, "of an idle segment");
}

void pools_are_pytorchs() {
    DataPtr before = get()->allocate(512);
    get()->beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    const std::size_t asked = core.calls.size();
    DataPtr block = get()->allocate(4096);
    void* raw = get()->raw_alloc(4096);
    require(inner().is_of_pool(block.get()) && inner().is_of_pool(raw), "pools are PyTorch's");
    same(core.calls.size(), asked, "calls of the core while a pool is allocated to");
    core.idle = 0;
    get()->emptyCache();
    same(core.calls.size(), asked, "calls of the core when the cache is emptied meanwhile");
    get()->beginAllocateToPool(0, {0, 2}, [](cudaStream_t) { return true; });
    get()->endAllocateToPool(0, {0, 1});
    require(!is_ours(get()->allocate(512).get()), "another pool is open yet");
    get()->endAllocateToPool(0, {0, 2});
    require(is_ours(get()->allocate(512).get()), "the core is asked again");
    get()->raw_delete(raw);

    require(error_of([] {
                get()->beginAllocateToPool(0, {0, 13}, nullptr);
            }).find("no such pool") != std::string::npos,
            "the error is PyTorch's");
    require(is_ours(get()->allocate(512).get()), "a pool that was refused is not open");

    CheckpointDelta delta = get()->setCheckpointPoolState(0, nullptr);
    require(delta.dataptrs_allocd.at(0).get_deleter() == get()->raw_deleter(),
            "blocks of a checkpoint are like all others");
}

void the_core_serves_the_captured_streams_of_a_pool() {
    const auto is_seven = [](cudaStream_t stream) {
        return reinterpret_cast<std::uint64_t>(stream) == 7;
    };
    core.is_serving_pools = true;
    get()->beginAllocateToPool(0, {0, 3}, is_seven);
    get()->beginAllocateToPool(0, {0, 3}, is_seven);  // a part of the same capture
    stand_in::stream = 7;
    DataPtr block = get()->allocate(4096);
    require(is_ours(block.get()) && core.calls.back() == "pool 3 on 7", "the core serves it");
    void* raw = get()->raw_alloc(512);
    require(is_ours(raw), "by a raw request too");
    get()->raw_delete(raw);
    stand_in::stream = 8;
    require(!is_ours(get()->allocate(512).get()), "another stream is not captured");
    get()->endAllocateToPool(0, {0, 3});
    require(core.calls.back() != "end capture 3", "a part has ended");
    get()->endAllocateToPool(0, {0, 3});
    require(core.calls.back() == "end capture 3", "the capture has ended");
    inner().uses_of_pool = 1;
    get()->releasePool(0, {0, 3});
    require(core.calls.back() != "end pool 3", "another graph uses the pool");
    inner().uses_of_pool = 0;
    get()->releasePool(0, {0, 3});
    require(core.calls.back() == "end pool 3", "the pool is over");
    core.has_memory_at_the_end = false;
    get()->beginAllocateToPool(0, {4, 0}, is_seven);
    require(error_of([] { get()->endAllocateToPool(0, {4, 0}); }).find("must not be replayed") !=
                std::string::npos,
            "a graph without memory is an error");
    require(is_ours(get()->allocate(512).get()), "the core is asked again");
}

void another_devices_pool_does_not_matter() {
    get()->beginAllocateToPool(1, {0, 1}, [](cudaStream_t) { return true; });
    require(is_ours(get()->allocate(512).get()), "device 0 is served");
    get()->endAllocateToPool(1, {0, 1});
    stand_in::device = 1;
    require(!is_ours(get()->allocate(512).get()), "device 1 has no core");
    stand_in::device = 0;
}

void a_block_that_others_use_is_freed_after_the_capture() {
    DataPtr used = get()->allocate(512), unused = get()->allocate(512);
    stand_in::stream = 5;
    get()->recordStream(used, c10::cuda::getCurrentCUDAStream(0));
    get()->beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    unused.clear();
    same(core.blocks.size(), 1u, "blocks after the one nobody else used was freed");
    used.clear();
    same(core.blocks.size(), 1u, "blocks after the other was freed");
    get()->endAllocateToPool(0, {0, 1});
    same(core.blocks.size(), 0u, "blocks after the capture");
}

void streams_are_recorded_on_either_kind() {
    DataPtr ours = get()->allocate(512);
    core.is_serving = false;
    DataPtr theirs = get()->allocate(512);
    stand_in::stream = 5;
    const auto stream = c10::cuda::getCurrentCUDAStream(0);
    get()->recordStream(ours, stream);
    require(core.calls.back() == "use on 5", "the core is told");
    get()->recordStream(theirs, stream);
    require(inner().calls.back() == "recordStream 5", "PyTorch is told");
    DeviceAllocator& general = *get();
    general.recordStream(ours, c10::Stream(stream));
    same(core.blocks.begin()->second.other_streams, 2, "by way of the general interface too");
    // One that is shared from another process, whose deleter is its own.
    char byte = 0;
    DataPtr foreign(&byte, &byte, [](void*) {}, c10::Device(c10::DeviceType::CUDA, 0));
    get()->recordStream(foreign, stream);
    require(inner().calls.back() == "recordStream of another's", "PyTorch knows what to do");
    get()->recordStream(DataPtr(), stream);
    same(inner().blocks(), 1u, "blocks of PyTorch's");
}

void memory_is_given_back_before_a_second_try() {
    int observed = 0;
    get()->attachOutOfMemoryObserver([&](auto...) { ++observed; });
    core.device_bytes = &inner().taken_by_others[0];
    DataPtr own = get()->allocate(8 * MiB);
    own.clear();
    core.is_serving = false;
    core.idle = 8 * MiB;
    DataPtr large = get()->allocate(60 * MiB);
    require(large.get() != nullptr, "what the core gave back is enough");
    same(observed, 0, "observers told of an error that the program does not see");
    same(get()->getDeviceStats(0).num_ooms, 0, "errors that the program saw");
    check_sums(core.statistics.sums());

    const std::string error = error_of([] { get()->allocate(60 * MiB); });
    require(error.find("CUDA out of memory. Tried 62914560") != std::string::npos,
            "the error is PyTorch's: " + error);
    require(error.find("Gapless has reserved 0 bytes more") != std::string::npos,
            "and tells of the core: " + error);
    same(observed, 1, "observers told of an error that the program sees");
    same(get()->getDeviceStats(0).num_ooms, 1, "errors that the program saw");
    large.clear();
    require(get()->allocate(MiB).get() != nullptr, "all goes on");
}

void nothing_is_given_back_while_a_stream_captures() {
    DataPtr own = get()->allocate(MiB);
    get()->beginAllocateToPool(0, {0, 1}, [](cudaStream_t) { return true; });
    const std::size_t asked = core.calls.size();
    const std::string error = error_of([] { get()->allocate(100 * MiB); });
    require(error.find("CUDA out of memory") != std::string::npos, "the error is PyTorch's");
    same(core.calls.size(), asked, "calls of the core");
    get()->endAllocateToPool(0, {0, 1});
}

void the_cache_is_emptied_on_both_sides() {
    core.reserve(4 * MiB);
    core.idle = 4 * MiB;
    get()->emptyCache();
    require(core.calls.back() == "give back 0", "the core gives back");
    require(inner().calls.back() == "emptyCache", "PyTorch does");
    same(get()->getDeviceStats(0).reserved_bytes[kAll].current, 0, "reserved bytes");
    const std::size_t asked = core.calls.size();
    get()->emptyCache({0, 3});
    same(core.calls.size(), asked, "calls of the core for a pool of PyTorch's");
}

void history_tells_of_both_in_order() {
    static int contexts = 0;
    struct Context : c10::GatheredContext {};
    const CreateContextFn recorder = []() -> std::shared_ptr<c10::GatheredContext> {
        ++contexts;
        return std::make_shared<Context>();
    };
    get()->recordHistory(true, recorder, 100, RecordContext::ALL, true, {});
    int tracked = 0;
    get()->attachAllocatorTraceTracker([&](const TraceEntry&) { ++tracked; });
    get()->setUserMetadata("mine");
    std::string compiled = "graph 1";
    get()->pushCompileContext(compiled);
    stand_in::stream = 3;
    DataPtr ours = get()->allocate(1000);
    get()->popCompileContext();
    core.is_serving = false;
    DataPtr theirs = get()->allocate(2000);
    const auto address = reinterpret_cast<std::size_t>(ours.get());
    SnapshotInfo info = get()->snapshot();
    require(info.segments.back().blocks.at(0).context_when_allocated != nullptr,
            "a block knows where it was asked for");
#if GAPLESS_TORCH_IS_AT_LEAST(12)
    require(get()->getContextForPointer(ours.get()) != nullptr, "and can be asked");
#endif
    ours.clear();
    theirs.clear();
    const auto trace = get()->snapshot().device_traces.at(0);
    std::string actions;
    for (const auto& entry : trace) actions += std::to_string(entry.action_) + " ";
    // ALLOC, ALLOC, FREE_REQUESTED, FREE_COMPLETED, FREE_COMPLETED
    same(actions, std::string("0 0 1 2 2 "), "actions");
    require(trace[0].addr_ == address && trace[0].size_ == 1000, "the first is ours");
    require(trace[0].context_ != nullptr && trace[2].context_ != nullptr, "contexts");
    same(trace[0].stream_, reinterpret_cast<void*>(3), "stream");
    same(trace[0].user_metadata_, std::string("mine"), "metadata");
    same(trace[0].compile_context_, std::string("graph 1"), "what was compiled");
    same(trace[2].compile_context_, std::string(), "nothing was compiled");
    require(trace[1].size_ == 2000 && trace[0].time_.t_ <= trace[1].time_.t_ &&
                trace[1].time_.t_ <= trace[2].time_.t_,
            "in the order of time, which is in microseconds");
    same(contexts, 2, "contexts gathered for ours");
    same(tracked, 3, "entries that a tracker saw of ours");
    require(get()->snapshot({0, 0}, false).device_traces.at(0).empty(), "traces may be left out");
    require(get()->snapshot({0, 4}).segments.empty(), "a pool's snapshot has nothing of ours");

    get()->recordHistory(true, recorder, 2, RecordContext::STATE, true, {"free_requested"});
    core.is_serving = true;
    for (int i = 0; i < 5; ++i) get()->allocate(512);
    const auto last = get()->snapshot().device_traces.at(0);
    same(last.size(), 2u, "the newest entries");
    require(last[0].action_ == TraceEntry::ALLOC && last[1].action_ == TraceEntry::FREE_COMPLETED,
            "without those that are skipped");
    require(last[0].context_ == nullptr, "contexts of live blocks only");
    get()->recordHistory(true, recorder, 2, RecordContext::ALLOC, true, {});
    get()->allocate(512);
    require(get()->snapshot().device_traces.at(0).back().context_ != nullptr,
            "a free without a place of its own has the request's");
    get()->recordHistory(false, nullptr, 0, RecordContext::NEVER, true, {});
    get()->allocate(512);
    require(get()->snapshot().device_traces.at(0).empty(), "nothing is recorded any more");
}

void a_block_is_known_by_any_of_its_bytes() {
    DataPtr ours = get()->allocate(MiB);
    core.is_serving = false;
    DataPtr theirs = get()->allocate(MiB);
    std::size_t bytes = 0;
    require(is_ours(get()->getBaseAllocation(ours.get(), &bytes)), "base of ours");
    same(bytes, 2 * MiB, "bytes of the segment of ours");
    require(get()->getBaseAllocation(theirs.get(), &bytes) == theirs.get(), "base of theirs");
    same(bytes, MiB, "bytes of theirs");
}

void plain_memory_is_shared_with_other_processes() {
    DataPtr first = get()->allocate(512), ours = get()->allocate(512);
    const std::string error = error_of([&] { get()->shareIpcHandle(ours.get()); });
    require(error.find("arena=\"cudaMalloc\"") != std::string::npos, "what to do: " + error);
    core.is_plain = true;
    const ShareableHandle handle = get()->shareIpcHandle(ours.get());
    same(handle.offset, 512, "offset");
    same(handle.handle.size(), 2 + CUDA_IPC_HANDLE_SIZE, "bytes of the handle");
    require(handle.handle.substr(0, 2) ==
                "\x03"
                "c",
            "begins as PyTorch's own do");
    same(inner().blocks(), 0u, "blocks of PyTorch's in the end");
    core.is_serving = false;
    DataPtr theirs = get()->allocate(512);
    same(get()->shareIpcHandle(theirs.get()).offset, 5, "offset of theirs");
}

void copies_between_devices() {
    DataPtr ours = get()->allocate(512);
    char theirs[512] = {1};
    get()->memcpyAsync(ours.get(), 0, theirs, 1, 512, nullptr, false);
    same(stand_in::peer_copies, 1, "copies between devices that do not reach each other");
    get()->memcpyAsync(theirs, 1, ours.get(), 0, 512, nullptr, false);
    same(stand_in::peer_copies, 2, "copies the other way");
    get()->memcpyAsync(ours.get(), 0, theirs, 1, 512, nullptr, true);
    get()->memcpyAsync(ours.get(), 0, theirs, 0, 512, nullptr, false);
    core.is_plain = true;
    get()->memcpyAsync(ours.get(), 0, theirs, 1, 512, nullptr, false);
    same(stand_in::peer_copies, 2, "copies that PyTorch can do");
    same(inner().calls.size(), 3u, "copies that PyTorch did");
    get()->enablePeerAccess(1, 0);
    require(core.calls.back() == "open 0 to 1", "the core opens its memory");
    require(inner().calls.back() == "enablePeerAccess", "PyTorch does");
}

void a_fraction_of_the_device_is_for_both() {
    get()->setMemoryFraction(0.5, 0);
    same(get()->getMemoryFraction(0), 0.5, "fraction");
    stand_in::device = 0;
    DataPtr own = get()->allocate(16 * MiB);
    same(inner().fraction, 0.25, "fraction that is left for PyTorch");
    same(get()->getMemoryFraction(0), 0.5, "fraction that the user has set");
    same(core.limit, 32 * MiB, "limit of the core");
    core.is_serving = false;
    {
        DataPtr theirs = get()->allocate(8 * MiB);
        same(core.limit, 24 * MiB, "limit beside PyTorch's part");
        inner().taken_by_others[0] = 64 * MiB;
        const std::string error = error_of([] { get()->allocate(MiB); });
        require(error.find("together may reserve 33554432 bytes") != std::string::npos, error);
    }
    get()->emptyCache();
    same(core.limit, 32 * MiB, "limit after PyTorch gave its part back");
}

void a_fraction_from_before_is_for_both() {
    inner().fraction = 0.5;
    DataPtr own = get()->allocate(16 * MiB);
    same(core.limit, 32 * MiB, "limit of the core");
    same(inner().fraction, 0.25, "fraction that is left for PyTorch");
    core.idle = 16 * MiB;
    inner().taken_by_others[0] = 64 * MiB;
    core.is_serving = false;
    require(!error_of([] { get()->allocate(MiB); }).empty(), "memory is short");
    same(inner().fraction, 0.5, "fraction of PyTorch once the core has given back");
}

void without_a_cache_nothing_is_served() {
    get()->enable(false);
    require(!get()->isEnabled(), "PyTorch is told");
    require(!is_ours(get()->allocate(512).get()), "nothing is served");
    get()->enable(true);
    require(is_ours(get()->allocate(512).get()), "the core is asked again");
}

void what_the_core_refused_is_told() {
    core.is_serving = false;
    DataPtr block = get()->allocate(777);
    require(core.calls.back() == "passed on 0 777", "the core is told of what it refused");
}

void a_core_may_come_later() {
    core.is_installed = false;
    DataPtr theirs = get()->allocate(512);
    same(get()->getDeviceStats(0).allocation[kAll].current, 1, "allocations without a core");
    core.is_installed = true;
    DataPtr ours = get()->allocate(512);
    check_sums(core.statistics.sums());
}

void many_threads() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] {
            for (int step = 0; step < 2000; ++step) {
                get()->getDeviceStats(1);
                get()->beginAllocateToPool(1, {0, 1}, nullptr);
                get()->endAllocateToPool(1, {0, 1});
            }
        });
    }
    for (auto& thread : threads) thread.join();
    require(is_ours(get()->allocate(512).get()), "all pools are closed");
}

void requests_and_frees_are_timed() {
    std::int64_t before[2], after[2];
    gapless_time_requests(true, before);
    for (const bool serves : {true, false}) {
        core.is_serving = serves;
        get()->allocate(512).clear();
        get()->raw_delete(get()->raw_alloc(700));
        get()->raw_delete(get()->raw_alloc_with_stream(700, nullptr));
    }
    DataPtr late = get()->allocate(512);
    gapless_time_requests(false, after);
    same(after[1] - before[1], 13, "events");
    require(after[0] > before[0], "they take time");
    late.clear();
    gapless_time_requests(false, before);
    same(before[1], after[1], "events once the clock is off");
}

void it_is_decorated_once() {
    require(
        std::string(gapless_decorate(&fake::serving)) == "PyTorch's allocator is decorated already",
        "a second decoration is refused");
    same(get()->name(), std::string("fake"), "name");
    require(c10::GetAllocator(c10::DeviceType::CUDA) == get(), "the general way leads here too");
}

const std::map<std::string, void (*)()> cases{
#define CASE(name) {#name, &name}
    CASE(frees_go_where_blocks_came_from),
    CASE(raw_blocks_are_freed_by_any_of_the_ways),
    CASE(blocks_from_before_are_freed),
    CASE(requests_say_whose_stream),
    CASE(sums_add_up),
    CASE(peaks_are_those_of_both),
    CASE(reserved_bytes_that_were_given_back_do_not_count_later),
    CASE(what_pytorch_serves_while_the_core_has_nothing_counts_later),
    CASE(nothing_is_asked_below_pytorchs_own_peak),
    CASE(a_checkpoint_that_is_restored_counts),
    CASE(pytorch_is_asked_for_its_sums_only_at_records),
    CASE(peaks_begin_anew),
    CASE(free_bytes_beside_live_ones_are_not_releasable),
    CASE(pools_are_pytorchs),
    CASE(the_core_serves_the_captured_streams_of_a_pool),
    CASE(another_devices_pool_does_not_matter),
    CASE(a_block_that_others_use_is_freed_after_the_capture),
    CASE(streams_are_recorded_on_either_kind),
    CASE(memory_is_given_back_before_a_second_try),
    CASE(nothing_is_given_back_while_a_stream_captures),
    CASE(the_cache_is_emptied_on_both_sides),
    CASE(history_tells_of_both_in_order),
    CASE(a_block_is_known_by_any_of_its_bytes),
    CASE(plain_memory_is_shared_with_other_processes),
    CASE(copies_between_devices),
    CASE(a_fraction_of_the_device_is_for_both),
    CASE(a_fraction_from_before_is_for_both),
    CASE(without_a_cache_nothing_is_served),
    CASE(what_the_core_refused_is_told),
    CASE(a_core_may_come_later),
    CASE(many_threads),
    CASE(requests_and_frees_are_timed),
    CASE(it_is_decorated_once),
#undef CASE
};

}  // namespace

int main(int count, char** arguments) {
    if (count == 1) {
        for (const auto& [name, run] : cases) std::cout << name << "\n";
        return 0;
    }
    fake::FakeAllocator::only = new fake::FakeAllocator;
    allocator.store(&inner());
    c10::SetAllocator(c10::DeviceType::CUDA, &inner());
    GaplessServing other = fake::serving;
    other.version += 1;
    require(gapless_decorate(&other) != nullptr, "a core of another version is refused");
    const bool is_before = arguments[1] == std::string("blocks_from_before_are_freed");
    DataPtr before;
    if (is_before) before = get()->allocate(512);
    require(gapless_decorate(&fake::serving) == nullptr, "it is decorated");
    std::int64_t so_far[2];
    if (count == 3) gapless_time_requests(true, so_far);
    cases.at(arguments[1])();
    before.clear();
    same(inner().blocks() + core.blocks.size(), 0u, "blocks in the end");
}
