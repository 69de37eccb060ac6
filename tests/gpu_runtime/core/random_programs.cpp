// Random programs on planned memory: steps that follow a plan, leave it or have none, plans whose
// places are arbitrary. Ends with 1 and a line on stderr where something is wrong.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocator/planned_allocator.h"
#include "random_program.h"

namespace {

using namespace gapless::tests;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPlenty = 20000 * kPage;

ProgramOptions options_of(std::uint32_t seed, int turns) {
    return {.seed = seed,
            .page_bytes = kPage,
            .capacity = kPlenty,
            .stamp_every = kBlockAlignment,
            .turns = turns};
}

bool has_plain_memory(std::uint32_t seed) { return seed % 3 == 2; }

class PlannedProgram final : public RandomProgram<PlannedAllocator> {
  public:
    explicit PlannedProgram(const ProgramOptions& options)
        : RandomProgram(options,
                        [&](DeviceMemory& memory) {
                            return std::make_unique<PlannedAllocator>(
                                memory, has_plain_memory(options.seed), false,
                                options.seed % 4 == 3 ? 0 : MoveBudget::kUnlimited);
                        }),
          is_plain_(has_plain_memory(options.seed)) {}

    std::int64_t planned() const { return planned_; }
    std::int64_t pauses() const { return pauses_; }

  private:
    // Requests while their tag is paused have none.
    void request_tagged() {
        const std::string tag = chance(0.5) ? "a" : "b";
        const bool is_away = paused_.contains("") || paused_.contains(tag);
        allocator().set_tag(tag);
        try {
            request(some_bytes(), some_stream(), is_away ? "" : tag);
        } catch (...) {
            allocator().set_tag("");
            throw;
        }
        allocator().set_tag("");
        tags_.insert(tag);
    }

    std::set<Address> paused_addresses() {
        std::set<Address> addresses;
        for (const auto& [address, bytes] : allocator().paused_blocks()) addresses.insert(address);
        return addresses;
    }

    std::optional<std::string> some_tag() {
        if (tags_.empty() || chance(0.4)) return std::nullopt;
        return chance(0.5) ? *tags_.begin() : *tags_.rbegin();
    }

    void pause_some() {
        const std::optional<std::string> tag = some_tag();
        const bool keeps = chance(0.7);
        const std::int64_t before = allocator().figures().paused_bytes;
        try {
            change_memory(
                keeps, [&] { return call_allocator().pause(tag, keeps); },
                [&] { return paused_addresses(); });
        } catch (const OutOfHostMemory&) {
            require(has_failures(), "the host has memory");
            require(allocator().figures().paused_bytes == before, "nothing is paused");
            return;
        }
        paused_.insert(tag.value_or(""));
        for (const Live& block : live()) {
            const bool is_meant = !tag || block.tag == *tag;
            require(!is_meant || block.is_paused, "all blocks are paused that are meant");
        }
        require(tag || device().mapped_bytes() == 0, "a pause of everything leaves nothing");
        ++pauses_;
    }

    void resume_some() {
        const std::optional<std::string> tag = some_tag();
        change_memory(
            false, [&] { return call_allocator().resume(tag); },
            [&] { return paused_addresses(); });
        if (tag) {
            paused_.erase(*tag);
        } else {
            paused_.clear();
        }
        for (const Live& block : live()) {
            const bool is_meant = !tag || block.tag == *tag;
            require(!is_meant || !block.is_paused, "all blocks come again that are meant");
        }
    }

    void take_turn() override {
        if (!is_plain_ && !has_captured() && chance(0.02)) {
            return allocator().figures().paused_bytes > 0 && chance(0.7) ? resume_some()
                                                                         : pause_some();
        }
        if (live().size() < 60 && chance(0.05)) return request_tagged();
        const double kind = static_cast<double>(below(1000)) / 1000;
        if (kind < 0.5) {
            if (live().size() < 60) request_next();
        } else if (kind < 0.9) {
            free_some();
        } else if (kind < 0.91) {
            call_allocator().give_back();
        } else if (kind < 0.96) {
            in_step_ ? end_step() : begin_step();
        } else if (kind < 0.972) {
            finish_some();
        } else if (kind < 0.975) {
            destroy_some();
        } else if (kind < 0.98) {
            capture_some();
        } else if (!in_step_) {
            adopt(chance(0.8) ? 1 + below(3) : 0);
        }
    }

    void begin_step() {
        call_allocator().begin_step(static_cast<std::int32_t>(below(2)));
        in_step_ = true;
        next_ = 0;
        plan_ = plans_.empty() ? nullptr : &plans_[chance(0.7) ? 0 : below(plans_.size())];
    }

    void end_step() {
        planned_ += call_allocator().end_step(chance(0.9)).planned;
        in_step_ = false;
        plan_ = nullptr;
    }

    std::size_t some_bytes() {
        const std::size_t kind = below(8);
        if (kind < 3) return 1 + below(900);
        if (kind < 7) return 1 + below(8 * kPage);
        return 1 + below(40 * kPage);
    }

    void adopt(std::size_t count) {
        const std::size_t arena = (8 + below(120)) * kPage + below(8) * kBlockAlignment;
        std::vector<StepPlan> plans(count);
        for (StepPlan& plan : plans) {
            for (std::size_t requests = 1 + below(40); requests > 0; --requests) {
                const std::size_t bytes = chance(0.3) ? 1 + below(900) : 1 + below(8 * kPage);
                const std::size_t room = round_up(bytes, kBlockAlignment);
                const bool has_place = room <= arena && chance(0.9);
                const std::size_t units = has_place ? (arena - room) / kBlockAlignment + 1 : 0;
                plan.stream.push_back(some_stream());
                plan.bytes.push_back(static_cast<std::int64_t>(bytes));
                plan.offset.push_back(
                    has_place ? static_cast<std::int64_t>(below(units) * kBlockAlignment)
                              : kNoPlace);
                const bool is_beside = has_place && !live().empty() && chance(0.2);
                plan.beside.push_back(is_beside ? live()[below(live().size())].address : 0);
            }
        }
        // An arena that is replaced has the streams of its ranges wait.
        try {
            call_allocator().adopt(plans, count == 0 ? 0 : arena);
            plans_ = std::move(plans);
        } catch (const StreamIsCaptured& error) {
            require(has_captured(), error.what());
        } catch (const StreamIsGone&) {
        }
        allocator().check();
    }

    // Mostly what the plan expects next.
    void request_next() {
        if (plan_ == nullptr || next_ == plan_->request_count() || chance(0.01) ||
            is_gone(plan_->stream[next_])) {
            return request(some_bytes(), some_stream());
        }
        const std::size_t next = next_++;
        request(static_cast<std::size_t>(plan_->bytes[next]), plan_->stream[next]);
    }

    void check_more() override {
        require(allocator().figures().refused_frees == 0 || has_failures(), "no free is refused");
    }

    void give_all_back() override {
        if (in_step_) end_step();
        allocator().adopt({}, 0);
        if (!is_plain_) allocator().resume(std::nullopt);
        allocator().give_back();
    }

    const bool is_plain_;
    std::vector<StepPlan> plans_;
    const StepPlan* plan_ = nullptr;
    std::size_t next_ = 0;
    bool in_step_ = false;
    std::int64_t planned_ = 0, pauses_ = 0;
    std::set<std::string> tags_;    // which there are
    std::set<std::string> paused_;  // of them; the empty one stands for all
};

void run_orders(std::uint32_t seeds) {
    std::int64_t planned = 0, pauses = 0, out_of_memory = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        program = "seed " + std::to_string(seed);
        ProgramOptions options = options_of(seed, 1500);
        options.is_scarce = seed % 5 == 1;
        if (options.is_scarce) options.capacity = (100 + seed % 7 * 60) * kPage;
        options.streams = 1 + seed % kStreams;
        PlannedProgram run(options);
        run.run();
        planned += run.planned();
        pauses += run.pauses();
        out_of_memory += run.out_of_memory();
    }
    program = "all";
    if (planned < 10 * seeds) fail("requests get their places");
    if (pauses < 2 * seeds) fail("memory is paused");
    if (out_of_memory == 0) fail("memory is short now and then");
}

void run_failures(std::uint32_t seeds) {
    std::int64_t refused = 0;
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
        ProgramOptions options = options_of(seed, 250);
        options.is_scarce = seed % 2 == 1;
        if (options.is_scarce) options.capacity = 200 * kPage;
        refused += refuse_each_call(options, [](const ProgramOptions& each) {
            return std::make_unique<PlannedProgram>(each);
        });
    }
    program = "all";
    if (refused == 0) fail("the device refuses calls");
}

}  // namespace

int main(int count, char** arguments) {
    executable = "random_programs";
    if (count != 3) fail("orders or failures, and how many seeds");
    const auto seeds = static_cast<std::uint32_t>(std::stoul(arguments[2]));
    try {
        std::strcmp(arguments[1], "orders") == 0 ? run_orders(seeds) : run_failures(seeds);
    } catch (const std::exception& error) {
        fail(error.what());
    }
    std::puts("random_programs: passed");
}
