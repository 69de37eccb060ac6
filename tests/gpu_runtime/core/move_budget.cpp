// The budget of moves, by a clock that passes while the device is called, and when it is told to.
// Ends with 1 and a line on stderr if a rule does not hold.

#include "allocator/move_budget.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "allocator/planned_blocks.h"
#include "device/forwarding_memory.h"
#include "device/ledger_memory.h"

namespace {

std::chrono::steady_clock::duration now{};

void pass(double seconds) {
    now += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds));
}

}  // namespace

// Found before the one of the C++ library.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    return time_point(::now);
}

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = std::size_t{2} << 20;

void require(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "move_budget: %s\n", rule);
    std::exit(1);
}

// Each call takes a second.
class SlowMemory final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    Pages create_pages(std::size_t bytes) override {
        pass(1);
        return ForwardingMemory::create_pages(bytes);
    }
    void map(Address address, Pages pages, std::size_t bytes) override {
        pass(1);
        ForwardingMemory::map(address, pages, bytes);
    }
};

class Program {
  public:
    explicit Program(double share) : blocks_(memory_, false, share) {}

    Address allocate(std::size_t pages) {
        return blocks_.allocate(lock_, pages * kPage, 0).block->address;
    }
    void free(Address address) {
        const auto [heap, block] = blocks_.find(address);
        blocks_.free(*heap, *block);
    }
    void give_back() { blocks_.give_back(lock_); }
    // The heap gives its idle pages back of its own accord.
    void retire() { blocks_.heap().retire_above(0, 0); }
    // 200 pages, of which 100 are idle in pieces of ten.
    void fragment() {
        std::vector<Address> addresses;
        for (int number = 0; number < 20; ++number) addresses.push_back(allocate(10));
        for (std::size_t number = 0; number < 20; number += 2) free(addresses[number]);
    }
    void begin_step() { blocks_.begin_step(lock_, 0); }
    void step(std::size_t pages) {
        begin_step();
        free(allocate(pages));
        blocks_.end_step(lock_, true);
    }
    // Plans one request of so many pages.
    void adopt(std::int64_t pages) {
        const auto bytes = static_cast<std::int64_t>(kPage) * pages;
        blocks_.adopt(lock_, {{.stream = {0}, .bytes = {bytes}, .offset = {0}, .beside = {0}}},
                      static_cast<std::size_t>(bytes));
    }
    std::size_t to_plan() const { return blocks_.to_plan().size(); }
    double spent() const { return blocks_.bound().budget().spent_seconds(); }
    std::size_t reserved_pages() const { return blocks_.heap().blocks().reserved_bytes() / kPage; }

  private:
    LedgerMemory ledger_{kPage, kPage * 10000};
    SlowMemory memory_{ledger_};
    PlannedBlocks blocks_;
    std::mutex mutex_;
    Lock lock_{mutex_};
};

void a_share_of_the_time_is_allowed() {
    MoveBudget budget(0.25), none(0), all(MoveBudget::kUnlimited);
    const auto spend = [&](double seconds) {
        const MoveBudget::Charge charge(budget), other(all);
        pass(seconds);
    };
    pass(8);
    spend(2);
    require(budget.is_left(), "2 of 10 seconds are less than a quarter");
    spend(2);
    require(!budget.is_left(), "4 of 12 seconds are more than a quarter");
    pass(4);
    require(budget.is_left(), "4 of 16 seconds are a quarter");
    spend(8);
    budget.begin_again();
    pass(1);
    require(budget.is_left() && budget.spent_seconds() == 0, "nothing is spent at the beginning");
    require(!none.is_left(), "no share allows nothing, even before anything is spent");
    require(all.is_left() && all.spent_seconds() == 12, "without a limit all is allowed");
}

void the_time_begins_with_the_first_step() {
    Program program(0.5);
    program.fragment();
    require(program.spent() == 0, "the first pages are not charged");
    program.allocate(30);
    require(program.spent() == 30, "a move is charged, a second for each page");
    program.begin_step();
    require(program.spent() == 0, "the first step begins the time anew");
    program.allocate(30);
    const double spent = program.spent();
    require(spent >= 30, "a move in a step is charged");
    Program other(0.5);
    other.step(1);
    other.fragment();
    other.allocate(30);
    other.begin_step();
    require(other.spent() > 0, "a later step does not");
}

void pages_that_are_made_again_are_charged() {
    Program program(0.5);
    program.begin_step();
    program.free(program.allocate(10));
    program.give_back();
    program.free(program.allocate(10));
    require(program.spent() == 0, "neither new pages nor those after give_back() are charged");
    program.retire();
    require(program.reserved_pages() == 0, "all pages are idle");
    program.allocate(10);
    require(program.spent() == 20, "a page that is made and mapped again takes two seconds");
    program.allocate(20);
    require(program.spent() == 20, "pages beyond the peak are new");
}

void the_first_plan_moves_at_any_price() {
    Program program(0);
    program.fragment();
    program.allocate(30);
    require(program.reserved_pages() == 230, "without a budget the heap grows up to the shadow");
    program.step(1);
    program.adopt(12);
    require(program.spent() == 0, "the first plan is not charged");
    require(program.reserved_pages() <= 205, "it gives back what is above the least bound");
    Program later(0);
    later.step(1);
    later.adopt(12);
    later.fragment();
    later.allocate(30);
    const std::size_t reserved = later.reserved_pages();
    later.adopt(20);
    require(later.spent() > 0, "later plans are charged");
    require(later.reserved_pages() >= reserved, "they give nothing back without a budget");
}

void later_plans_are_made_while_the_budget_lasts() {
    Program program(0.001);
    const auto spend = [&] {
        program.free(program.allocate(50));
        program.retire();
        program.free(program.allocate(50));
    };
    program.step(5);
    spend();
    program.step(5);
    require(program.to_plan() == 1, "the first plan is made when the budget is spent");
    program.adopt(5);
    program.step(7);
    program.step(7);
    require(program.to_plan() == 0, "the budget is spent");
    pass(1e6);
    require(program.to_plan() == 2, "the budget lasts again");
}

}  // namespace

int main() {
    a_share_of_the_time_is_allowed();
    the_time_begins_with_the_first_step();
    pages_that_are_made_again_are_charged();
    the_first_plan_moves_at_any_price();
    later_plans_are_made_while_the_budget_lasts();
    std::puts("move_budget: passed");
}
