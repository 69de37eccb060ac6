// The frame of random programs on one allocator: blocks of several streams, a device that is full,
// that refuses calls, streams that are captured into graphs, which the device lets nobody mark or
// have wait, or destroyed. Every block has bytes of its own, also where they appear at several
// addresses, and of every byte it is known who worked there: whoever gets it next has to be behind
// that work, by its stream, by a wait, or because the host saw it end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "byte_ranges.h"
#include "device/simulated_memory.h"
#include "device/sizes.h"
#include "ordered_memory.h"
#include "physical_memory.h"

namespace gapless::tests {

inline std::string executable;  // what runs
inline std::string program;     // which one of its programs

// Ends with 1 and a line on stderr.
[[noreturn]] inline void fail(const std::string& rule) {
    std::fprintf(stderr, "%s: %s: %s\n", executable.c_str(), program.c_str(), rule.c_str());
    std::_Exit(1);
}

inline void require(bool holds, const std::string& rule) {
    if (!holds) fail(rule);
}

struct ProgramOptions {
    std::uint32_t seed = 0;
    std::size_t page_bytes;
    // More than a program needs where it is not changed.
    std::size_t capacity;
    bool is_scarce = false;
    std::size_t stamp_every;
    int turns;
    std::size_t streams = kStreams;
    // Of the device's calls, the first that fails, and how many then.
    std::uint64_t calls = 0;
    std::uint64_t failures = 0;
};

template <class Allocator>
class RandomProgram {
  public:
    virtual ~RandomProgram() = default;

    void run() {
        for (int turn = 0; turn < options_.turns; ++turn) {
            try {
                take_turn();
            } catch (const OutOfDeviceMemory&) {
                ++out_of_memory_;
                require(options_.is_scarce || options_.failures > 0, "there is memory");
                allocator_->check();
            } catch (const DeviceCallError& error) {
                ++refused_;
                require(options_.failures > 0, error.what());
                require(std::strstr(error.what(), ": the simulated device") != nullptr,
                        "an error names the call");
                allocator_->check();
            }
            if (turn % 64 == 0) check();
        }
        end();
    }

    std::uint64_t device_calls() { return simulated_.calls(); }
    std::int64_t out_of_memory() const { return out_of_memory_; }
    std::int64_t refused() const { return refused_; }
    // Of the allocator.
    std::int64_t calls() const { return calls_; }

  protected:
    struct Live {
        Address address;
        std::size_t bytes;
        Stream stream;
        std::uint64_t stamp;
        std::string tag;
        bool is_paused = false;
        bool is_kept = false;  // its contents come again
    };

    template <class Make>
    RandomProgram(const ProgramOptions& options, Make make)
        : options_(options),
          random_(options.seed),
          simulated_(options.page_bytes, options.capacity),
          ordered_(simulated_),
          memory_(ordered_),
          allocator_(make(memory_)),
          streams_(options.streams),
          next_stream_(options.streams) {
        std::iota(streams_.begin(), streams_.end(), Stream{0});
        simulated_.fail_after(options.calls, options.failures);
    }

    virtual void take_turn() = 0;
    virtual void after_free(const Live& /*block*/) {}
    virtual void check_more() = 0;
    // Where all blocks are freed: gives everything back.
    virtual void give_all_back() = 0;

    const SimulatedMemory& device() const { return simulated_; }
    Allocator& allocator() { return *allocator_; }
    Allocator& call_allocator() {
        ++calls_;
        return *allocator_;
    }
    const std::vector<Live>& live() const { return live_; }
    bool has_failures() const { return options_.failures > 0; }
    bool has_captured() const { return !captured_.empty(); }

    std::size_t below(std::size_t limit) { return random_() % limit; }
    bool chance(double share) { return static_cast<double>(random_() >> 11) * 0x1p-53 < share; }
    Stream some_stream() { return streams_[below(streams_.size())]; }
    bool is_gone(Stream stream) const {
        return std::ranges::find(streams_, stream) == streams_.end();
    }

    void finish_some() { ordered_.finish(some_stream()); }
    void capture_some() {
        const Stream stream = some_stream();
        capture(stream, !captured_.contains(stream));
    }
    // Another one takes its place.
    void destroy_some() {
        const std::size_t which = below(streams_.size());
        if (next_stream_ == kHandles || captured_.contains(streams_[which])) return;
        simulated_.destroy_stream(streams_[which]);
        streams_[which] = next_stream_++;
    }

    void request(std::size_t bytes, Stream stream, const std::string& tag = "") {
        const Address address = call_allocator().allocate(bytes, stream);
        require(address % kBlockAlignment == 0, "a block begins where it may");
        const Live block{address, bytes, stream, ++stamps_, tag};
        own(block);
        for (const auto& stretch : memory_.behind(address, bytes)) {
            worked_.each(stretch, [&](const Clock& before) {
                for (Stream other = 0; other < kHandles; ++other) {
                    require(other == stream || ordered_.is_ordered(stream, other, before[other]),
                            "bytes are used again before another stream is done");
                }
            });
        }
        write_stamp(block);
        live_.push_back(block);
        work(block, stream);
        if (chance(0.2)) {
            const Stream other = some_stream();
            require(call_allocator().use_on(address, other), "a block is known");
            work(block, other);
        }
    }

    // Calls what pauses or resumes, and holds the blocks against `addresses()`: those in use whose
    // memory is away from now on.
    template <class Call, class Addresses>
    void change_memory(bool keeps, Call call, Addresses addresses) {
        std::map<Address, std::vector<PhysicalMemory::Stretch>> behind;
        for (const Live& block : live_) {
            if (!block.is_paused)
                behind[block.address] = memory_.behind(block.address, block.bytes);
        }
        const auto look = [&] {
            const std::set<Address> away = addresses();
            for (Live& block : live_) {
                if (away.contains(block.address) == block.is_paused) continue;
                block.is_paused = !block.is_paused;
                if (block.is_paused) {
                    block.is_kept = keeps;
                    // The device may refuse to take a frame back, which then serves other blocks.
                    for (const auto& stretch : behind.at(block.address)) {
                        owner_.change(stretch, [](std::uint64_t& owner) { owner = 0; });
                    }
                    continue;
                }
                own(block);
                if (block.is_kept) {
                    require_stamp(block);
                } else {
                    write_stamp(block);
                }
            }
        };
        const auto created = static_cast<std::ptrdiff_t>(simulated_.created_bytes());
        try {
            const auto bytes = static_cast<std::ptrdiff_t>(call());
            const std::ptrdiff_t more =
                static_cast<std::ptrdiff_t>(simulated_.created_bytes()) - created;
            // A full device gets idle memory before it is asked again.
            require(bytes == std::abs(more) || options_.is_scarce,
                    "as many bytes come or go as are told");
        } catch (...) {
            look();
            throw;
        }
        look();
    }

    void free_some() {
        if (!live_.empty()) free(below(live_.size()));
    }

  private:
    void capture(Stream stream, bool begins) {
        simulated_.set_captured(stream, begins);
        if (begins) {
            captured_.insert(stream);
        } else {
            captured_.erase(stream);
        }
    }

    void work(const Live& block, Stream stream) {
        if (captured_.contains(stream) || is_gone(stream)) return;  // the graph's, or nobody's
        const std::uint64_t position = ordered_.submit(stream, block.address, block.bytes);
        for (const auto& stretch : memory_.behind(block.address, block.bytes)) {
            worked_.change(stretch, [&](Clock& clock) { clock[stream] = position; });
        }
    }

    void own(const Live& block) {
        for (const auto& stretch : memory_.behind(block.address, block.bytes)) {
            owner_.change(stretch, [&](std::uint64_t& owner) {
                require(owner == 0, "two blocks share no byte");
                owner = block.stamp;
            });
        }
    }

    void write_stamp(const Live& block) {
        each_word(block,
                  [&](void* word, std::size_t length) { std::memcpy(word, &block.stamp, length); });
    }

    void require_stamp(const Live& block) {
        each_word(block, [&](void* word, std::size_t length) {
            require(std::memcmp(word, &block.stamp, length) == 0, "nobody else writes to a block");
        });
    }

    void disown(const Live& block) {
        if (chance(0.5)) work(block, block.stream);
        for (const auto& stretch : memory_.behind(block.address, block.bytes)) {
            owner_.change(stretch, [&](std::uint64_t& owner) {
                require(owner == block.stamp, "nobody else has a block's bytes");
                owner = 0;
            });
        }
        require_stamp(block);
        each_word(block, [&](void* word, std::size_t length) { std::memset(word, 0xDE, length); });
    }

    void free(std::size_t which) {
        std::swap(live_[which], live_.back());
        const Live block = live_.back();
        live_.pop_back();
        if (!block.is_paused) disown(block);
        require(call_allocator().free(block.address), "a block is known");
        after_free(block);
    }

    // Its first word, its last whole one, and some between.
    template <class Act>
    void each_word(const Live& block, Act act) {
        constexpr std::size_t kWord = sizeof(block.stamp);
        const auto word = [&](std::size_t at) {
            act(reinterpret_cast<void*>(block.address + at), std::min(kWord, block.bytes));
        };
        const std::size_t last = block.bytes < kWord ? 0 : block.bytes / kWord * kWord - kWord;
        for (std::size_t at = 0; at < last; at += options_.stamp_every) word(at);
        word(last);
    }

    void check() {
        allocator_->check();
        const auto& figures = allocator_->figures();
        require(static_cast<std::size_t>(figures.reserved_bytes) == simulated_.created_bytes(),
                "reserved is what the device gave");
        std::size_t requested = 0;
        for (const Live& block : live_) requested += block.bytes;
        require(static_cast<std::size_t>(figures.requested_bytes) == requested,
                "requested is what was asked for");
        check_more();
    }

    // On a device that is well again everything comes back.
    void end() {
        simulated_.fail_after(0, 0);
        for (const Stream stream : streams_) capture(stream, false);
        while (!live_.empty()) free(live_.size() - 1);
        give_all_back();
        require(simulated_.host_allocations() == 0 || has_failures(), "no host memory is left");
        check();
        require(simulated_.created_bytes() == 0, "all memory comes back");
        require(simulated_.mapped_bytes() == 0, "nothing is mapped any more");
        require(simulated_.captured_work() == 0, "nothing of ours becomes a part of a graph");
        require(simulated_.live_events() == ordered_.lost_events(), "no event is left");
    }

    const ProgramOptions options_;
    std::mt19937_64 random_;
    SimulatedMemory simulated_;
    OrderedMemory ordered_;
    PhysicalMemory memory_;
    std::unique_ptr<Allocator> allocator_;
    std::vector<Stream> streams_;
    Stream next_stream_;
    std::set<Stream> captured_;
    std::vector<Live> live_;
    std::uint64_t stamps_ = 0;
    ByteRanges<std::uint64_t> owner_;  // stamps of live blocks, 0 for none
    ByteRanges<Clock> worked_;         // the last work of each stream
    std::int64_t calls_ = 0, out_of_memory_ = 0, refused_ = 0;
};

// Runs a program once for each call that its device gets, which is refused, with up to two more.
// Returns how often the program was told.
template <class Make>
std::int64_t refuse_each_call(const ProgramOptions& healthy, Make make) {
    program = "seed " + std::to_string(healthy.seed);
    const auto first = make(healthy);
    first->run();
    std::int64_t refused = 0;
    for (std::uint64_t call = 0; call < first->device_calls(); ++call) {
        program = "seed " + std::to_string(healthy.seed) + ", call " + std::to_string(call);
        ProgramOptions options = healthy;
        options.calls = call;
        options.failures = 1 + call % 3;
        const auto refusing = make(options);
        refusing->run();
        refused += refusing->refused();
    }
    return refused;
}

}  // namespace gapless::tests
