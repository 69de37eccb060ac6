// Many threads use one allocator. Every block is stamped by its owner and checked before it is
// freed; compiled with a sanitizer that sees races or bad accesses. Ends with 1 and a line on
// stderr where something is wrong.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "allocator/planned_allocator.h"
#include "device/forwarding_memory.h"
#include "device/simulated_memory.h"
#include "online/online_by_name.h"
#include "online/serving_online_allocator.h"

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kCapacity = 1024 * kPage;
// PyTorch's segments have 2 MiB at least, a few a stream.
constexpr std::size_t kOnlineCapacity = std::size_t{40} << 20;
constexpr int kThreads = 6;
constexpr int kOwnTurns = 6000;
constexpr int kSteps = 430;
constexpr int kUnplannedSteps = 3;
constexpr Stream kStepStream = 0;
constexpr std::size_t kRequests = 24;

[[noreturn]] void fail(const char* rule) {
    std::fprintf(stderr, "stress: %s\n", rule);
    std::_Exit(1);
}

// Events are done when they were asked about some times, so that blocks wait for them. Calls come
// from one thread at a time, or the sanitizer that sees races sees one here: there is no lock.
class SlowMemory final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    Event record_event(Stream stream) override {
        const Event event = ForwardingMemory::record_event(stream);
        questions_[event] = 5;
        return event;
    }
    bool is_done(Event event) override { return --questions_.at(event) <= 0; }
    void destroy_event(Event event) override {
        questions_.erase(event);
        ForwardingMemory::destroy_event(event);
    }

  private:
    std::unordered_map<Event, int> questions_;
};

// The bytes of a block, all of them its owner's.
class Stamped {
  public:
    Stamped(ServingAllocator& allocator, std::size_t bytes, Stream stream)
        : bytes_(bytes), stamp_(next_stamp()) {
        try {
            address_ = allocator.allocate(bytes, stream);
        } catch (const OutOfDeviceMemory&) {
            bytes_ = 0;
        }
        for (std::size_t at = 0; at < bytes_; ++at) bytes_of()[at] = pattern(at);
    }
    void free(ServingAllocator& allocator) {
        for (std::size_t at = 0; at < bytes_; ++at) {
            if (bytes_of()[at] != pattern(at)) fail("a block was written to by somebody else");
        }
        allocator.free(address_);
        address_ = 0;
    }
    bool exists() const { return bytes_ > 0; }
    Address address() const { return address_; }

  private:
    static std::uint32_t next_stamp() {
        static std::atomic<std::uint32_t> stamps{0};
        return stamps.fetch_add(1, std::memory_order_relaxed) * 2654435761u;
    }
    unsigned char* bytes_of() const { return reinterpret_cast<unsigned char*>(address_); }
    unsigned char pattern(std::size_t at) const {
        return static_cast<unsigned char>(stamp_ >> (at % 4 * 8));
    }

    Address address_ = 0;
    std::size_t bytes_;
    std::uint32_t stamp_;
};

// Requests of the step's stream, each of another size. Every third is freed before the next one,
// which gets its place.
std::size_t step_bytes(std::size_t request) { return 512 * (1 + request % 5) + request; }

constexpr std::size_t kArena = kRequests * 8 * 512;

// Every other plan has half the arena.
void adopt(PlannedAllocator& allocator, bool is_small) {
    StepPlan plan;
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < kRequests; ++k) {
        const bool before_is_freed = k % 3 == 1;
        const std::int64_t place = before_is_freed ? plan.offset.back() : offset;
        const bool is_within = !is_small || place + 8 * 512 <= std::int64_t{kArena / 2};
        plan.stream.push_back(kStepStream);
        plan.bytes.push_back(static_cast<std::int64_t>(step_bytes(k)));
        plan.offset.push_back(is_within ? place : kNoPlace);
        plan.beside.push_back(0);
        offset += before_is_freed ? 0 : 8 * 512;
    }
    allocator.adopt({plan}, is_small ? kArena / 2 : kArena);
}

// A lock of the program's own, which is taken around calls and within the listener: it hangs
// where the allocator holds its lock while the listener runs.
std::mutex interpreter;
std::atomic<std::int64_t> told{0};

// Allocates and frees on a stream, lets others use what it has, and looks about now and then.
void use_heap(ServingAllocator& allocator, unsigned seed, Stream stream,
              const std::function<void()>& look) {
    std::mt19937 random(seed);
    std::vector<Stamped> blocks;
    for (int turn = 0; turn < kOwnTurns; ++turn) {
        if (blocks.size() < 4 + random() % 8) {
            Stamped block(allocator, 1 + random() % (random() % 4 == 0 ? 4 * kPage : 900), stream);
            if (!block.exists()) continue;
            if (random() % 4 == 0) allocator.use_on(block.address(), random() % kThreads);
            blocks.push_back(block);
        } else {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            blocks.back().free(allocator);
            blocks.pop_back();
        }
        if (turn % 500 == 0) allocator.give_back();
        if (turn % 50 == 0) {
            const std::lock_guard held(interpreter);
            if (allocator.statistics().small.allocation.current < 0) fail("blocks are counted");
            if (!blocks.empty() && allocator.segments().empty()) fail("there is memory");
            look();
        }
    }
    for (Stamped& block : blocks) block.free(allocator);
}

// Steps begin and end in one thread, while the requests of the same stream come from another one
// too, as those of autograd do.
void run_steps(PlannedAllocator& allocator) {
    for (int step = 0; step < kSteps; ++step) {
        if (step == kUnplannedSteps) adopt(allocator, false);
        allocator.begin_step(0);
        std::vector<Stamped> blocks;
        const auto request_some = [&](std::size_t begin, std::size_t end) {
            for (std::size_t k = begin; k < end; ++k) {
                if (k % 3 == 1) {
                    blocks.back().free(allocator);
                    blocks.pop_back();
                }
                // Now and then not what was planned.
                const std::size_t more = step % 5 == 4 && k % 7 == 6 ? 1 : 0;
                Stamped block(allocator, step_bytes(k) + more, kStepStream);
                if (!block.exists()) fail("there is memory for the step");
                if (k % 4 == 0) allocator.use_on(block.address(), 1 + k % (kThreads - 1));
                blocks.push_back(block);
            }
        };
        request_some(0, kRequests / 2);
        std::thread([&] { request_some(kRequests / 2, kRequests); }).join();
        // The last ones are freed by others, after the step perhaps.
        std::vector<Stamped> late(blocks.end() - 2, blocks.end());
        blocks.erase(blocks.end() - 2, blocks.end());
        std::thread freer([&] {
            for (Stamped& block : late) block.free(allocator);
        });
        for (Stamped& block : blocks) block.free(allocator);
        allocator.end_step(step % 7 != 6);
        if (step % 40 == 39) {
            // While others free what lies in its arena.
            if (step % 80 == 39) allocator.adopt({}, 0);
            adopt(allocator, step % 160 >= 80);
        }
        freer.join();
        if (step % 100 == 99) allocator.reset_peaks();
        if (step % 10 == 9) {
            allocator.on_mismatch([](const Mismatch&) {
                const std::lock_guard held(interpreter);
                ++told;
            });
        }
    }
}

void stress(bool is_plain) {
    SimulatedMemory simulated(kPage, kCapacity);
    SlowMemory memory(simulated);
    PlannedAllocator allocator(memory, is_plain);
    allocator.on_mismatch([](const Mismatch& mismatch) {
        const std::lock_guard held(interpreter);
        if (mismatch.bytes == 0) fail("a mismatch has a size");
        ++told;
    });
    std::vector<std::thread> threads;
    threads.emplace_back([&] { run_steps(allocator); });
    // Two threads to a stream, some of them to that of the steps' uses, none to the steps' own.
    for (unsigned i = 1; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            use_heap(allocator, i, 1 + i / 2, [&] {
                if (allocator.figures().requested_bytes < 0) fail("bytes are counted");
                if (allocator.mismatches().size() > 64) fail("64 mismatches are kept");
                allocator.check();
            });
        });
    }
    for (std::thread& thread : threads) thread.join();

    const Figures figures = allocator.figures();
    allocator.adopt({}, 0);
    allocator.give_back();
    allocator.check();
    if (figures.requested_bytes != 0) fail("all is freed");
    if (figures.planned_requests == 0 || figures.unexpected_requests == 0) {
        fail("steps are planned");
    }
    if (figures.refused_frees != 0) fail("the device refuses nothing");
    if (simulated.live_events() != 0) fail("no event is left");
    if (simulated.created_bytes() != 0) fail("no memory is left");
    if (told == 0) fail("the listener is told");
}

void stress_online(const std::string& name) {
    SimulatedMemory simulated(kPage, kOnlineCapacity);
    SlowMemory memory(simulated);
    CountingMemory counted(memory);
    const std::unique_ptr<OnlineAllocator> online = gapless::tests::make_online(name, counted);
    ServingOnlineAllocator allocator(*online, counted);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            use_heap(allocator, i, 1 + i / 2, [&] {
                const OnlineFigures figures = allocator.figures();
                if (figures.reserved_bytes != figures.active_bytes + figures.free_bytes) {
                    fail("reserved is what is active or free");
                }
                allocator.check();
            });
        });
    }
    for (std::thread& thread : threads) thread.join();

    allocator.give_back();
    const GaplessStatistics sums = allocator.statistics();
    if (sums.small.active.current + sums.large.active.current != 0) fail("all is freed");
    if (allocator.calls().record_event == 0) fail("blocks wait for events");
    if (simulated.live_events() != 0) fail("no event is left");
    if (simulated.created_bytes() != 0) fail("no memory is left");
}

}  // namespace

int main() {
    stress(false);
    stress(true);
    for (const OnlineDefinition& each : online_allocators()) stress_online(each.name);
    std::puts("stress: passed");
}
