// Random programs on one allocator: blocks of several streams, steps of kinds that a book has or
// not, books whose places are arbitrary, a device that is full, that refuses calls, streams that
// are captured into graphs, which the device lets nobody mark or have wait, or destroyed. Every
// block has bytes of its own, and of every range of bytes it is known who worked there: whoever
// gets it next has to be behind that work, by its stream, by a wait, or because the host saw it
// end. Ends with 1 and a line on stderr where something is wrong.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocator/planned_allocator.h"
#include "device/simulated_memory.h"
#include "ordered_memory.h"

namespace {

using namespace gapless::runtime;
using namespace gapless::tests;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPlenty = 20000 * kPage;

std::string program;  // which one runs

[[noreturn]] void fail(const std::string& rule) {
    std::fprintf(stderr, "random_programs: %s: %s\n", program.c_str(), rule.c_str());
    std::_Exit(1);
}

struct Options {
    std::uint32_t seed;
    bool is_plain = false;
    std::size_t capacity = kPlenty;
    std::size_t streams = kStreams;
    int turns = 1500;
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
          memory_(simulated_),
          allocator_(memory_, options.is_plain),
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
                allocator_.check();
            } catch (const StreamIsCaptured& error) {
                // A plain arena that is replaced has the streams of its ranges wait.
                require(options_.is_plain && !captured_.empty(), error.what());
                allocator_.check();
            } catch (const StreamIsGone& error) {
                require(options_.is_plain, error.what());
                allocator_.check();
            } catch (const DeviceCallError& error) {
                ++refused_;
                require(options_.failures > 0, error.what());
                require(std::strstr(error.what(), ": the simulated device") != nullptr,
                        "an error names the call");
                allocator_.check();
            }
            if (turn % 64 == 0) check();
        }
        end();
    }

    std::uint64_t calls() { return simulated_.calls(); }
    std::int64_t planned() const { return planned_; }
    std::int64_t out_of_memory() const { return out_of_memory_; }
    std::int64_t refused() const { return refused_; }

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
        const std::size_t kind = below(8);
        if (kind < 3) return 1 + below(900);
        if (kind < 7) return 1 + below(8 * kPage);
        return 1 + below(40 * kPage);
    }

    void take_turn() {
        const double kind = static_cast<double>(below(1000)) / 1000;
        if (kind < 0.5) {
            if (live_.size() < 60) request();
        } else if (kind < 0.9) {
            if (!live_.empty()) free(below(live_.size()));
        } else if (kind < 0.91) {
            allocator_.give_back();
        } else if (kind < 0.96) {
            if (in_step_) {
                planned_ += allocator_.end_step().planned;
            } else {
                const auto label = static_cast<std::int32_t>(below(2));
                planned_ += allocator_.begin_step(label).planned;
                choose(label);
            }
            in_step_ = !in_step_;
            if (!in_step_) choose(kBetweenSteps);
        } else if (kind < 0.972) {
            memory_.finish(some_stream());
        } else if (kind < 0.975) {
            destroy(below(streams_.size()));
        } else if (kind < 0.98) {
            const Stream stream = some_stream();
            capture(stream, !captured_.contains(stream));
        } else if (!in_step_) {
            if (chance(0.8)) {
                adopt();
            } else {
                allocator_.drop_book();
                kinds_.clear();
                choose(kBetweenSteps);
            }
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

    // The kind whose requests come, mostly.
    void choose(std::int32_t label) {
        slot_ = 0;
        kind_ = nullptr;
        for (const KindPlan& kind : kinds_) {
            if (kind.label == label && (kind_ == nullptr || chance(0.5))) kind_ = &kind;
        }
    }

    void adopt() {
        const std::size_t pages = 8 + below(120);
        const std::size_t arena = pages * kPage + below(8) * kBlockAlignment;
        std::vector<KindPlan> kinds(1 + below(3));
        for (KindPlan& kind : kinds) {
            kind.label = static_cast<std::int32_t>(below(3)) - 1;
            for (std::size_t slots = 1 + below(40); slots > 0; --slots) {
                const std::size_t most = chance(0.3) ? 1 + below(900) : 1 + below(8 * kPage);
                const std::size_t room = round_up(most, kBlockAlignment);
                kind.stream.push_back(some_stream());
                kind.least.push_back(static_cast<std::int64_t>(std::max<std::size_t>(1, most / 2)));
                kind.most.push_back(static_cast<std::int64_t>(most));
                const auto place = [&](double share) {
                    if (room > arena || !chance(share)) return kNoPlace;
                    const std::size_t units = (arena - room) / kBlockAlignment + 1;
                    return static_cast<std::int64_t>(below(units) * kBlockAlignment);
                };
                kind.offset.push_back(place(0.9));
                kind.spare.push_back(place(0.2));
                kind.handed_over.push_back(chance(0.2) ? 1 : 0);
            }
        }
        allocator_.adopt_book(StepBook(kinds, arena));
        kinds_ = std::move(kinds);
        choose(kBetweenSteps);
    }

    void request() {
        Stream stream = some_stream();
        std::size_t bytes = some_bytes();
        if (kind_ != nullptr && slot_ < kind_->slot_count() && chance(0.9)) {
            if (chance(0.03)) ++slot_;  // one does not come
            if (slot_ < kind_->slot_count()) {
                if (!is_gone(kind_->stream[slot_])) stream = kind_->stream[slot_];
                const auto least = static_cast<std::size_t>(kind_->least[slot_]);
                const auto most = static_cast<std::size_t>(kind_->most[slot_]);
                bytes = chance(0.05) ? most + 700 : least + below(most - least + 1);
                ++slot_;
            }
        }
        const Address address = allocator_.allocate(bytes, stream);
        require(address % kBlockAlignment == 0, "a block begins where it may");
        const Live block{address, bytes, stream, ++stamps_ << 8 | 0xAB};
        for (Address at = address; at < address + bytes; at += kBlockAlignment) {
            require(owned_.insert(at).second, "two blocks share no byte");
            const Clock& before = worked_[at];
            for (Stream other = 0; other < kHandles; ++other) {
                require(other == stream || memory_.is_ordered(stream, other, before[other]),
                        "bytes are used again before another stream is done");
            }
            write(block, at);
        }
        live_.push_back(block);
        work(block, stream);
        if (chance(0.2)) {
            const Stream other = some_stream();
            require(allocator_.use_on(address, other), "a block is known");
            work(block, other);
        }
    }

    void work(const Live& block, Stream stream) {
        if (captured_.contains(stream) || is_gone(stream)) return;  // the graph's, or nobody's
        const std::uint64_t position = memory_.submit(stream, block.address, block.bytes);
        for (Address at = block.address; at < block.address + block.bytes; at += kBlockAlignment) {
            worked_[at][stream] = position;
        }
    }

    void free(std::size_t which) {
        std::swap(live_[which], live_.back());
        const Live block = live_.back();
        live_.pop_back();
        if (chance(0.5)) work(block, block.stream);
        for (Address at = block.address; at < block.address + block.bytes; at += kBlockAlignment) {
            require(is_whole(block, at), "nobody else writes to a block");
            owned_.erase(at);
        }
        require(allocator_.free(block.address), "a block is known");
    }

    // A word of each stretch is enough, and at its end the last byte.
    static void write(const Live& block, Address at) {
        const std::size_t bytes = std::min<std::size_t>(8, block.address + block.bytes - at);
        std::memcpy(reinterpret_cast<void*>(at), &block.stamp, bytes);
        *reinterpret_cast<unsigned char*>(block.address + block.bytes - 1) = 0xAB;
    }
    static bool is_whole(const Live& block, Address at) {
        const std::size_t bytes = std::min<std::size_t>(8, block.address + block.bytes - at);
        if (at + bytes == block.address + block.bytes) return true;  // ends with the last byte
        return std::memcmp(reinterpret_cast<void*>(at), &block.stamp, bytes) == 0 &&
               *reinterpret_cast<unsigned char*>(block.address + block.bytes - 1) == 0xAB;
    }

    void check() {
        allocator_.check();
        const Figures figures = allocator_.figures();
        require(static_cast<std::size_t>(figures.reserved_bytes) == simulated_.created_bytes(),
                "reserved is what the device gave");
        std::size_t requested = 0;
        for (const Live& block : live_) requested += block.bytes;
        require(static_cast<std::size_t>(figures.requested_bytes) == requested,
                "requested is what was asked for");
        require(figures.refused_frees == 0 || options_.failures > 0, "no free is refused");
    }

    // On a device that is well again everything comes back.
    void end() {
        simulated_.fail_after(0, 0);
        for (const Stream stream : streams_) capture(stream, false);
        while (!live_.empty()) free(live_.size() - 1);
        if (in_step_) planned_ += allocator_.end_step().planned;
        allocator_.drop_book();
        check();
        require(simulated_.created_bytes() == 0, "all memory comes back");
        require(simulated_.mapped_bytes() == 0, "nothing is mapped any more");
        require(simulated_.live_events() == memory_.lost_events(), "no event is left");
    }

    const Options options_;
    std::mt19937_64 random_;
    SimulatedMemory simulated_;
    OrderedMemory memory_;
    PlannedAllocator allocator_;
    std::vector<KindPlan> kinds_;
    const KindPlan* kind_ = nullptr;
    std::size_t slot_ = 0;
    bool in_step_ = false;
    std::vector<Stream> streams_;
    Stream next_stream_;
    std::set<Stream> captured_;
    std::vector<Live> live_;
    std::uint64_t stamps_ = 0;
    std::set<Address> owned_;
    std::unordered_map<Address, Clock> worked_;  // the last work of each stream, by stretch
    std::int64_t planned_ = 0, out_of_memory_ = 0, refused_ = 0;
};

void run_orders(std::uint32_t seeds) {
    std::int64_t planned = 0, out_of_memory = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        program = "seed " + std::to_string(seed);
        Options options{.seed = seed};
        options.is_plain = seed % 3 == 2;
        if (seed % 5 == 1) options.capacity = (100 + seed % 7 * 60) * kPage;
        options.streams = 1 + seed % kStreams;
        Program run(options);
        run.run();
        planned += run.planned();
        out_of_memory += run.out_of_memory();
    }
    program = "all";
    if (planned < 20 * seeds) fail("requests get their places");
    if (out_of_memory == 0) fail("memory is short now and then");
}

void run_failures(std::uint32_t seeds) {
    std::int64_t refused = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        Options options{.seed = seed, .is_plain = seed % 3 == 2, .turns = 250};
        if (seed % 2 == 1) options.capacity = 200 * kPage;
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
    if (count != 3) fail("orders or failures, and how many seeds");
    const auto seeds = static_cast<std::uint32_t>(std::stoul(arguments[2]));
    try {
        std::strcmp(arguments[1], "orders") == 0 ? run_orders(seeds) : run_failures(seeds);
    } catch (const std::exception& error) {
        fail(error.what());
    }
    std::puts("random_programs: passed");
}
