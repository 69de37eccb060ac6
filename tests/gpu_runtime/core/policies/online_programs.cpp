// Random programs on one online allocator: blocks of several streams, a device that is full, that
// refuses calls, streams that are captured into graphs or destroyed. Every block has bytes of its
// own, also where they appear at several addresses, and of every byte it is known who worked there:
// whoever gets it next has to be behind that work, by its stream, by a wait, or because the host
// saw it end. Ends with 1 and a line on stderr where something is wrong.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../ordered_memory.h"
#include "device/simulated_memory.h"
#include "physical_memory.h"
#include "policies/gmlake.h"
#include "policies/pytorch_caching.h"
#include "policies/pytorch_expandable.h"
#include "policies/vpmm.h"

namespace {

using namespace gapless::tests;

constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr std::size_t kPlenty = std::size_t{64} << 30;
constexpr std::size_t kStampEvery = std::size_t{1} << 20;
constexpr std::uint64_t kPoison = 0xDEADDEADDEADDEADu;

using Made = std::unique_ptr<OnlineAllocator>;
struct Policy {
    const char* name;
    Made (*make)(DeviceMemory&);
};

PytorchSettings settings_of_all() {
    PytorchSettings settings;
    settings.max_split_bytes = std::size_t{24} << 20;
    settings.garbage_collection_threshold = 0.5;
    settings.roundup_power2_divisions.fill(4);
    return settings;
}

// Small blocks are split and stitched too, and few stitched ones are kept.
GmlakeRules rules_of_few() {
    GmlakeRules rules;
    rules.fragmentation_limit_bytes = 2 * kPage;
    rules.most_stitched = 12;
    return rules;
}

const Policy kPolicies[] = {
    {"pytorch-caching",
     [](DeviceMemory& memory) -> Made {
         return std::make_unique<PytorchCaching>(memory, PytorchSettings());
     }},
    {"pytorch-caching-settings",
     [](DeviceMemory& memory) -> Made {
         return std::make_unique<PytorchCaching>(memory, settings_of_all());
     }},
    {"pytorch-expandable",
     [](DeviceMemory& memory) -> Made {
         return std::make_unique<PytorchExpandable>(memory, PytorchSettings());
     }},
    {"gmlake",
     [](DeviceMemory& memory) -> Made { return std::make_unique<Gmlake>(memory, rules_of_few()); }},
    {"vpmm",
     [](DeviceMemory& memory) -> Made {
         return std::make_unique<Vpmm>(memory, VpmmSettings{.chunk_bytes = 64 * kPage});
     }},
};

std::string program;  // which one runs

[[noreturn]] void fail(const std::string& rule) {
    std::fprintf(stderr, "online_programs: %s: %s\n", program.c_str(), rule.c_str());
    std::_Exit(1);
}

// Of ranges of bytes, something that can be compared.
template <class T>
class Ranges {
  public:
    // Calls act(value) for every part of a range, cut at its ends. What was never set is not there.
    template <class Act>
    void each(PhysicalMemory::Stretch range, Act act) {
        cut(range.begin);
        cut(range.end);
        for (auto part = parts_.lower_bound(range.begin);
             part != parts_.end() && part->first < range.end; ++part) {
            act(part->second.value);
        }
    }
    // The same, where what was not set is T().
    template <class Act>
    void change(PhysicalMemory::Stretch range, Act act) {
        cut(range.begin);
        cut(range.end);
        std::uint64_t at = range.begin;
        for (auto part = parts_.lower_bound(at); at < range.end; ++part) {
            const std::uint64_t next =
                part == parts_.end() ? range.end : std::min(part->first, range.end);
            if (at < next) part = parts_.insert(part, {at, {next, T()}});
            act(part->second.value);
            at = part->second.end;
        }
        join(range);
    }

  private:
    struct Part {
        std::uint64_t end;
        T value;
    };
    void cut(std::uint64_t at) {
        auto part = parts_.lower_bound(at);
        if (part == parts_.begin()) return;
        --part;
        if (part->second.end <= at) return;
        parts_.insert({at, part->second});
        part->second.end = at;
    }
    // Parts that are equal become one.
    void join(PhysicalMemory::Stretch range) {
        auto part = parts_.lower_bound(range.begin);
        if (part != parts_.begin()) --part;
        while (part != parts_.end() && part->first < range.end) {
            const auto next = std::next(part);
            if (next != parts_.end() && next->first == part->second.end &&
                next->second.value == part->second.value) {
                part->second.end = next->second.end;
                parts_.erase(next);
            } else {
                part = next;
            }
        }
    }
    std::map<std::uint64_t, Part> parts_;
};

struct Options {
    const Policy* policy;
    std::uint32_t seed;
    std::size_t capacity = kPlenty;
    std::size_t streams = kStreams;
    int turns = 3000;
    // Of the device's calls, the first that fails, and how many then.
    std::uint64_t calls = 0;
    std::uint64_t failures = 0;
};

class Program {
  public:
    explicit Program(const Options& options)
        : options_(options),
          random_(options.seed),
          simulated_(kPage, options.capacity),
          ordered_(simulated_),
          memory_(ordered_),
          allocator_(options.policy->make(memory_)),
          streams_(options.streams),
          next_stream_(options.streams) {
        std::iota(streams_.begin(), streams_.end(), Stream{0});
        simulated_.fail_after(options.calls, options.failures);
    }

    void run() {
        for (int turn = 0; turn < options_.turns; ++turn) {
            try {
                take_turn();
            } catch (const OutOfDeviceMemory&) {
                ++out_of_memory_;
                require(options_.capacity < kPlenty || options_.failures > 0, "there is memory");
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

    std::uint64_t calls() { return simulated_.calls(); }
    std::int64_t out_of_memory() const { return out_of_memory_; }
    std::int64_t refused() const { return refused_; }
    std::int64_t pending() const { return pending_; }

  private:
    struct Live {
        Address address;
        std::size_t bytes;
        Stream stream;
        std::uint64_t stamp;
    };

    static void require(bool holds, const std::string& rule) {
        if (!holds) fail(rule);
    }
    std::size_t below(std::size_t limit) { return random_() % limit; }
    bool chance(double share) { return static_cast<double>(random_() >> 11) * 0x1p-53 < share; }

    std::size_t some_bytes() {
        const std::size_t kind = below(16);
        if (kind < 4) return 1 + below(2000);
        if (kind < 8) return 1 + below(std::size_t{1} << 20);
        if (kind < 14) return 1 + below(std::size_t{12} << 20);
        return 1 + below(std::size_t{50} << 20);
    }

    void take_turn() {
        const double kind = static_cast<double>(below(1000)) / 1000;
        if (kind < 0.48) {
            if (live_.size() < 40) request();
        } else if (kind < 0.92) {
            if (!live_.empty()) free(below(live_.size()));
        } else if (kind < 0.93) {
            allocator_->give_back();
        } else if (kind < 0.98) {
            ordered_.finish(some_stream());
        } else if (kind < 0.985) {
            allocator_->settle();
        } else if (kind < 0.99) {
            destroy(below(streams_.size()));
        } else {
            const Stream stream = some_stream();
            capture(stream, !captured_.contains(stream));
        }
    }

    Stream some_stream() { return streams_[below(streams_.size())]; }
    bool is_gone(Stream stream) const {
        return std::ranges::find(streams_, stream) == streams_.end();
    }

    // Another one takes its place.
    void destroy(std::size_t which) {
        if (next_stream_ == kHandles || captured_.contains(streams_[which])) return;
        simulated_.destroy_stream(streams_[which]);
        streams_[which] = next_stream_++;
    }

    void capture(Stream stream, bool begins) {
        simulated_.set_captured(stream, begins);
        if (begins) {
            captured_.insert(stream);
        } else {
            captured_.erase(stream);
        }
    }

    void request() {
        const Stream stream = some_stream();
        const std::size_t bytes = some_bytes();
        const Address address = allocator_->allocate(bytes, stream);
        require(address % 512 == 0, "a block begins where it may");
        const Live block{address, bytes, stream, ++stamps_};
        for (const auto& stretch : memory_.behind(address, bytes)) {
            owner_.change(stretch, [&](std::uint64_t& owner) {
                require(owner == 0, "two blocks share no byte");
                owner = block.stamp;
            });
            worked_.each(stretch, [&](const Clock& before) {
                for (Stream other = 0; other < kHandles; ++other) {
                    require(other == stream || ordered_.is_ordered(stream, other, before[other]),
                            "bytes are used again before another stream is done");
                }
            });
        }
        each_word(block, [&](std::uint64_t& word) { word = block.stamp; });
        live_.push_back(block);
        work(block, stream);
        if (chance(0.2)) {
            const Stream other = some_stream();
            require(allocator_->use_on(address, other), "a block is known");
            work(block, other);
        }
    }

    void work(const Live& block, Stream stream) {
        if (captured_.contains(stream) || is_gone(stream)) return;  // the graph's, or nobody's
        const std::uint64_t position = ordered_.submit(stream, block.address, block.bytes);
        for (const auto& stretch : memory_.behind(block.address, block.bytes)) {
            worked_.change(stretch, [&](Clock& clock) { clock[stream] = position; });
        }
    }

    void free(std::size_t which) {
        std::swap(live_[which], live_.back());
        const Live block = live_.back();
        live_.pop_back();
        if (chance(0.5)) work(block, block.stream);
        for (const auto& stretch : memory_.behind(block.address, block.bytes)) {
            owner_.change(stretch, [&](std::uint64_t& owner) {
                require(owner == block.stamp, "nobody else has a block's bytes");
                owner = 0;
            });
        }
        each_word(block, [&](std::uint64_t& word) {
            require(word == block.stamp, "nobody else writes to a block");
            word = kPoison;
        });
        require(allocator_->free(block.address), "a block is known");
        require(!allocator_->free(block.address), "a block is freed once");
        const OnlineFigures& figures = allocator_->figures();
        if (figures.active_bytes > figures.allocated_bytes) ++pending_;
    }

    // Its first word, its last, and some between; no whole one of a block of less than 8 bytes.
    template <class Act>
    static void each_word(const Live& block, Act act) {
        if (block.bytes < sizeof(std::uint64_t)) return;
        const std::size_t last =
            block.bytes / sizeof(std::uint64_t) * sizeof(std::uint64_t) - sizeof(std::uint64_t);
        for (std::size_t at = 0; at < last; at += kStampEvery) {
            act(*reinterpret_cast<std::uint64_t*>(block.address + at));
        }
        act(*reinterpret_cast<std::uint64_t*>(block.address + last));
    }

    void check() {
        allocator_->check();
        const OnlineFigures& figures = allocator_->figures();
        require(figures.reserved_bytes == simulated_.created_bytes(),
                "reserved is what the device gave");
        std::size_t requested = 0, allocated = 0;
        for (const Live& block : live_) requested += block.bytes;
        require(figures.requested_bytes == requested, "requested is what was asked for");
        std::map<Address, std::size_t> listed;
        for (const OnlineSegment& segment : allocator_->segments()) {
            Address at = segment.address;
            for (const OnlineBlock& block : segment.blocks) {
                require(block.address == at, "blocks of a segment lie side by side");
                at += block.bytes;
                if (block.state != OnlineState::allocated) continue;
                listed[block.address] = block.requested;
                allocated += block.bytes;
            }
            require(at == segment.address + segment.bytes, "blocks cover their segment");
        }
        require(allocated == figures.allocated_bytes, "allocated is what is listed");
        require(listed.size() == live_.size(), "what is live is listed");
        for (const Live& block : live_) {
            require(listed[block.address] == block.bytes, "what is live is listed");
        }
    }

    // On a device that is well again everything comes back.
    void end() {
        simulated_.fail_after(0, 0);
        for (const Stream stream : streams_) capture(stream, false);
        while (!live_.empty()) free(live_.size() - 1);
        allocator_->give_back();
        check();
        require(simulated_.created_bytes() == 0, "all memory comes back");
        require(simulated_.mapped_bytes() == 0, "nothing is mapped any more");
        require(simulated_.reserved_ranges() == 0, "no range is left");
        require(simulated_.captured_work() == 0, "nothing of ours becomes a part of a graph");
        require(simulated_.live_events() == ordered_.lost_events(), "no event is left");
    }

    const Options options_;
    std::mt19937_64 random_;
    SimulatedMemory simulated_;
    OrderedMemory ordered_;
    PhysicalMemory memory_;
    Made allocator_;
    std::vector<Stream> streams_;
    Stream next_stream_;
    std::set<Stream> captured_;
    std::vector<Live> live_;
    std::uint64_t stamps_ = 0;
    Ranges<std::uint64_t> owner_;  // stamps of live blocks, 0 for none
    Ranges<Clock> worked_;         // the last work of each stream
    std::int64_t out_of_memory_ = 0, refused_ = 0, pending_ = 0;
};

std::size_t scarce(std::uint32_t seed) { return (96 + std::size_t{seed} % 7 * 24) << 20; }

void run_orders(const Policy& policy, std::uint32_t seeds) {
    std::int64_t out_of_memory = 0, pending = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        program = "seed " + std::to_string(seed);
        Options options{.policy = &policy, .seed = seed};
        if (seed % 2 == 1) options.capacity = scarce(seed);
        options.streams = 1 + seed % kStreams;
        Program run(options);
        run.run();
        out_of_memory += run.out_of_memory();
        pending += run.pending();
    }
    program = "all";
    if (out_of_memory == 0) fail("memory is short now and then");
    if (pending == 0) fail("blocks wait for other streams");
}

void run_failures(const Policy& policy, std::uint32_t seeds) {
    std::int64_t refused = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        Options options{.policy = &policy, .seed = seed, .turns = 250};
        if (seed % 2 == 1) options.capacity = scarce(seed);
        program = "seed " + std::to_string(seed);
        Program healthy(options);
        healthy.run();
        for (std::uint64_t call = 0; call < healthy.calls(); ++call) {
            options.calls = call;
            options.failures = 1 + call % 3;
            program = "seed " + std::to_string(seed) + ", call " + std::to_string(call);
            Program run(options);
            run.run();
            refused += run.refused();
        }
    }
    program = "all";
    if (refused == 0) fail("the device refuses calls");
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 4) fail("orders or failures, a policy, and how many seeds");
    const auto seeds = static_cast<std::uint32_t>(std::stoul(arguments[3]));
    const auto policy = std::ranges::find_if(
        kPolicies, [&](const Policy& each) { return std::strcmp(each.name, arguments[2]) == 0; });
    if (policy == std::end(kPolicies)) fail("no such policy");
    try {
        std::strcmp(arguments[1], "orders") == 0 ? run_orders(*policy, seeds)
                                                 : run_failures(*policy, seeds);
    } catch (const std::exception& error) {
        fail(error.what());
    }
    std::puts("online_programs: passed");
}
