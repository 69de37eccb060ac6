// Random programs on one online allocator. Ends with 1 and a line on stderr where something is
// wrong.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "../random_program.h"
#include "online/gmlake.h"
#include "online/pytorch_caching.h"
#include "online/pytorch_expandable.h"
#include "online/stweaver.h"
#include "online/vpmm.h"

namespace {

using namespace gapless::tests;

constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr std::size_t kPlenty = std::size_t{64} << 30;

using Made = std::unique_ptr<OnlineAllocator>;
struct Named {
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

// A pool in which small requests have places, several of them one, and others find idle bytes.
Made stweaver_of_small_pool(DeviceMemory& memory) {
    StweaverProfile profile{.pool_bytes = 8 * kPage, .stream = 1, .visits = 1};
    for (std::size_t bytes = 1; bytes <= 1500; ++bytes) {
        profile.places.push_back({0, bytes, bytes % 64 * (std::size_t{2} << 10)});
    }
    profile.spaces = {{0, 0, 0}};
    profile.list_begins = {0, 2};
    profile.intervals = {{0, kPage}, {2 * kPage, 8 * kPage}};
    auto made = std::make_unique<Stweaver>(memory);
    made->adopt(profile);
    made->enter(0);
    return made;
}

const Named kOnlineAllocators[] = {
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
    {"stweaver", stweaver_of_small_pool},
};

// The common pool and two private ones.
constexpr PoolId kPools = 3;

std::size_t scarce(std::uint32_t seed) { return (96 + std::size_t{seed} % 7 * 24) << 20; }

ProgramOptions options_of(std::uint32_t seed, int turns) {
    const bool is_scarce = seed % 2 == 1;
    return {.seed = seed,
            .page_bytes = kPage,
            .capacity = is_scarce ? scarce(seed) : kPlenty,
            .is_scarce = is_scarce,
            .stamp_every = kPage / 2,
            .turns = turns};
}

class OnlineProgram final : public RandomProgram<OnlineAllocator> {
  public:
    OnlineProgram(const Named& named, const ProgramOptions& options)
        : RandomProgram(options, named.make) {}

    // Blocks that waited for other streams.
    std::int64_t pending() const { return pending_; }

  private:
    void take_turn() override {
        const double kind = static_cast<double>(below(1000)) / 1000;
        if (kind < 0.48) {
            if (live().size() < 40) request(some_bytes(), some_stream());
        } else if (kind < 0.92) {
            free_some();
        } else if (kind < 0.93) {
            call_allocator().give_back();
        } else if (kind < 0.98) {
            finish_some();
        } else if (kind < 0.985) {
            call_allocator().settle();
            call_allocator().begin_iteration();
            call_allocator().enter_pool(below(kPools));
            call_allocator().end_pool(1 + below(kPools - 1));
        } else if (kind < 0.99) {
            destroy_some();
        } else {
            capture_some();
        }
    }

    std::size_t some_bytes() {
        const std::size_t kind = below(16);
        if (kind < 4) return 1 + below(2000);
        if (kind < 8) return 1 + below(std::size_t{1} << 20);
        if (kind < 14) return 1 + below(std::size_t{12} << 20);
        return 1 + below(std::size_t{50} << 20);
    }

    void after_free(const Live& block) override {
        require(!allocator().free(block.address), "a block is freed once");
        const OnlineFigures& figures = allocator().figures();
        if (figures.active_bytes > figures.allocated_bytes) ++pending_;
    }

    void check_more() override {
        std::size_t allocated = 0;
        std::map<Address, std::size_t> listed;
        for (const OnlineSegment& segment : allocator().segments()) {
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
        require(allocated == allocator().figures().allocated_bytes, "allocated is what is listed");
        require(listed.size() == live().size(), "what is live is listed");
        for (const Live& block : live()) {
            require(listed[block.address] == block.bytes, "what is live is listed");
        }
    }

    void give_all_back() override {
        // Before a pool ends, which settles: give_back() alone waits for every freed block.
        allocator().give_back();
        require(allocator().figures().active_bytes == 0, "no freed block is in use");
        for (PoolId pool = 1; pool < kPools; ++pool) allocator().end_pool(pool);
        allocator().give_back();
        require(device().reserved_ranges() == 0, "no range is left");
    }

    std::int64_t pending_ = 0;
};

// From a seed on, until the allocator was called so often.
void run_orders(const Named& named, std::int64_t calls, std::uint32_t seed) {
    std::int64_t out_of_memory = 0, pending = 0;
    for (; calls > 0; ++seed) {
        program = "seed " + std::to_string(seed);
        ProgramOptions options = options_of(seed, 3000);
        options.streams = 1 + seed % kStreams;
        OnlineProgram run(named, options);
        run.run();
        calls -= run.calls();
        out_of_memory += run.out_of_memory();
        pending += run.pending();
    }
    program = "all";
    if (out_of_memory == 0) fail("memory is short now and then");
    if (pending == 0) fail("blocks wait for other streams");
}

void run_failures(const Named& named, std::uint32_t seeds) {
    std::int64_t refused = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        refused += refuse_each_call(options_of(seed, 250), [&](const ProgramOptions& options) {
            return std::make_unique<OnlineProgram>(named, options);
        });
    }
    program = "all";
    if (refused == 0) fail("the device refuses calls");
}

}  // namespace

int main(int count, char** arguments) {
    executable = "online_programs";
    const bool is_orders = count > 1 && std::strcmp(arguments[1], "orders") == 0;
    if (count != (is_orders ? 5 : 4)) {
        fail(
            "orders, an allocator, how many calls and the first seed; or failures, an allocator, "
            "how many "
            "seeds");
    }
    const auto named = std::ranges::find_if(kOnlineAllocators, [&](const Named& each) {
        return std::strcmp(each.name, arguments[2]) == 0;
    });
    if (named == std::end(kOnlineAllocators)) fail("no such allocator");
    const long many = std::stol(arguments[3]);
    try {
        if (is_orders) {
            run_orders(*named, many, static_cast<std::uint32_t>(std::stoul(arguments[4])));
        } else {
            run_failures(*named, static_cast<std::uint32_t>(many));
        }
    } catch (const std::exception& error) {
        fail(error.what());
    }
    std::puts("online_programs: passed");
}
