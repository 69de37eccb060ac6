// Devices of the tests and of replays, asked directly. Ends with 1 and a line on stderr where
// something is wrong.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "device/counting_memory.h"
#include "device/ledger_memory.h"
#include "device/page_mapper.h"
#include "device/simulated_memory.h"

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = 4096;

void require(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "device_rules: %s\n", rule);
    std::_Exit(1);
}

template <class Error, class Call>
bool refuses(Call call) {
    try {
        call();
    } catch (const Error&) {
        return true;
    }
    return false;
}

// Whether a process may write to an address and lives.
bool can_write(Address address) {
    const pid_t child = fork();
    if (child == 0) {
        *reinterpret_cast<volatile char*>(address) = 1;
        std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status);
}

void simulated_memory() {
    SimulatedMemory memory(kPage, 8 * kPage);
    require(memory.total_bytes() == 8 * kPage, "the capacity is what there is");
    const Address range = memory.reserve_range(8 * kPage);
    std::array<Pages, 3> pages{};
    for (Pages& each : pages) each = memory.create_pages(kPage);
    for (std::size_t i = 0; i < 3; ++i) memory.map(range + i * kPage, pages[i], kPage);
    require(!can_write(range), "what is mapped is not open");
    require(refuses<std::logic_error>([&] { memory.set_access(range, 4 * kPage); }),
            "what is not mapped is not opened");
    require(refuses<std::logic_error>([&] { memory.set_access(range, kPage / 2); }),
            "mappings are opened as a whole");
    memory.set_access(range, 2 * kPage);
    require(can_write(range + kPage) && !can_write(range + 2 * kPage), "a range is opened");

    // The same bytes at two addresses.
    memory.map(range + 5 * kPage, pages[0], kPage);
    memory.set_access(range + 5 * kPage, kPage);
    *reinterpret_cast<char*>(range) = 7;
    require(*reinterpret_cast<char*>(range + 5 * kPage) == 7, "pages appear at two addresses");

    memory.submit(1, range + 2 * kPage, kPage);
    require(refuses<std::logic_error>([&] { memory.unmap(range + kPage, 2 * kPage); }),
            "pages disappear while a stream is at work there");
    require(memory.mapped_bytes() == 4 * kPage, "what is refused changes nothing");
    memory.unmap(range, 2 * kPage);
    require(memory.mapped_bytes() == 2 * kPage, "several mappings disappear at once");
    require(!can_write(range), "nothing is where pages have been");
    require(refuses<std::logic_error>([&] { memory.release_pages(pages[0]); }),
            "pages are released while they are mapped");
    memory.unmap(range + 5 * kPage, kPage);
    memory.release_pages(pages[0]);
}

void host_memory() {
    SimulatedMemory memory(kPage, 8 * kPage);
    const Address plain = memory.allocate_plain(kPage), host = memory.allocate_host(kPage);
    char* const word = reinterpret_cast<char*>(plain);
    *word = 7;
    memory.submit(1, plain, kPage);
    require(refuses<std::logic_error>([&] { memory.copy(host, plain, kPage); }),
            "bytes are copied while a stream is at work there");
    memory.finish(1);
    memory.copy(host, plain, kPage);
    require(refuses<std::logic_error>([&] { memory.release_plain(plain); }),
            "memory stays while it is copied");
    require(refuses<std::logic_error>([&] { memory.release_host(host); }),
            "host memory stays while it is copied");
    memory.await_copies();
    *word = 8;
    memory.copy(plain, host, kPage);
    memory.await_copies();
    require(*word == 7, "contents come again");
    memory.release_host(host);
    require(memory.host_allocations() == 0, "host memory is given back");
    require(refuses<std::logic_error>([&] { memory.release_host(host); }), "and only once");
    memory.fail_after(0, 1);
    require(refuses<OutOfHostMemory>([&] { memory.allocate_host(kPage); }), "the host is full");
}

void page_mapper() {
    SimulatedMemory memory(kPage, 8 * kPage);
    PageMapper mapper(memory);
    const Address range = memory.reserve_range(8 * kPage);
    const std::array<Pages, 2> pages{memory.create_pages(kPage), memory.create_pages(kPage)};
    const auto map = [&] { mapper.map(range, pages, kPage); };
    // The first call, the second, the one that opens; and that which takes back then.
    for (const std::uint64_t call : {0, 1, 2}) {
        memory.fail_after(call, 1);
        require(refuses<DeviceCallError>(map), "a refusal is told");
        require(memory.mapped_bytes() == 0, "what cannot be opened is not mapped");
        memory.fail_after(call, 2);
        require(refuses<DeviceCallError>(map), "a refusal is told");
        require(memory.mapped_bytes() == call * kPage, "what is not taken back is mapped");
        memory.fail_after(0, 0);
        mapper.settle();
        require(memory.mapped_bytes() == 0, "it is taken back later");
    }
    memory.fail_after(2, 2);
    require(refuses<DeviceCallError>(map), "a refusal is told");
    map();
    require(can_write(range + kPage), "it is mapped and open");
}

void ledger_memory() {
    LedgerMemory memory(kPage, 8 * kPage, LedgerStreams::when_told);
    const Address range = memory.reserve_range(8 * kPage);
    const Pages pages = memory.create_pages(2 * kPage);
    memory.map(range + kPage, pages, 2 * kPage);
    for (const std::size_t at : {0, 1, 2}) {
        require(refuses<std::logic_error>(
                    [&] { memory.map(range + at * kPage, pages, (at == 0 ? 2 : 1) * kPage); }),
                "an address is mapped once");
    }
    memory.map(range, pages, kPage);
    memory.map(range + 3 * kPage, pages, kPage);
    memory.unmap(range, 4 * kPage);
    memory.map(range, pages, 4 * kPage);

    require(refuses<OutOfDeviceMemory>([&] { memory.allocate_plain(7 * kPage); }),
            "there is no more than the capacity");
    const Address plain = memory.allocate_plain(6 * kPage);
    require(memory.free_bytes() == 0, "plain memory counts");
    require(refuses<OutOfDeviceMemory>([&] { memory.create_pages(kPage); }), "all is taken");
    memory.release_plain(plain);
    memory.release_pages(pages);
    require(memory.created_bytes() == 0, "memory comes back");

    memory.dictate_plain({3 * kPage, kPage});
    memory.dictate_ranges({5 * kPage});
    require(memory.allocate_plain(kPage) == 3 * kPage && memory.allocate_plain(kPage) == kPage &&
                memory.reserve_range(kPage) == 5 * kPage,
            "addresses are dictated in order");
    require(memory.allocate_plain(kPage) > plain, "then they are new");
    memory.dictate_plain({2 * kPage, kPage, 4 * kPage});
    require(memory.allocate_plain(2 * kPage) > plain && memory.allocate_plain(kPage) > plain &&
                memory.allocate_plain(kPage) == 4 * kPage,
            "plain memory does not lie in another one");
    require(refuses<std::invalid_argument>([&] { memory.dictate_ranges({0}); }),
            "there is no address 0");
    require(refuses<std::invalid_argument>([&] { memory.dictate_plain({plain}); }),
            "an address is not used twice");
    memory.dictate_ranges({20 * kPage, 21 * kPage});
    const Address left = memory.reserve_range(2 * kPage);
    const Address right = memory.reserve_range(2 * kPage);
    const Pages shared = memory.create_pages(kPage);
    memory.map(left + kPage, shared, kPage);
    require(refuses<std::invalid_argument>([&] { memory.map(right, shared, kPage); }),
            "dictated ranges hold no memory in common");

    const Event first = memory.record_event(1);
    require(!memory.is_done(first), "a stream is at work until told");
    memory.finish(2);
    require(!memory.is_done(first), "another stream says nothing");
    memory.finish(1);
    const Event second = memory.record_event(1);
    require(memory.is_done(first) && !memory.is_done(second), "events are done in their order");
    memory.await(second);
    require(memory.is_done(second), "what was waited for is done");
    memory.destroy_event(first);
    require(memory.live_events() == 1, "events are counted");
}

void counting_memory() {
    LedgerMemory ledger(kPage, 8 * kPage);
    CountingMemory memory(ledger);
    const Address range = memory.reserve_range(kPage);
    const Pages pages = memory.create_pages(kPage);
    memory.map(range, pages, kPage);
    memory.set_access(range, kPage);
    memory.unmap(range, kPage);
    memory.release_pages(pages);
    memory.release_range(range, kPage);
    memory.release_plain(memory.allocate_plain(kPage));
    const Event event = memory.record_event(0);
    memory.await(event);
    memory.make_wait(1, event);
    memory.synchronize();
    require(refuses<OutOfDeviceMemory>([&] { memory.create_pages(9 * kPage); }), "it is refused");
    const DeviceCalls& calls = memory.calls();
    require(calls.create_pages == 2, "refused calls count");
    for (const std::uint64_t count :
         {calls.reserve_range, calls.map, calls.set_access, calls.unmap, calls.release_pages,
          calls.release_range, calls.allocate_plain, calls.release_plain, calls.record_event,
          calls.await, calls.make_wait, calls.synchronize}) {
        require(count == 1, "each kind of call counts");
    }
}

}  // namespace

int main() {
    simulated_memory();
    host_memory();
    page_mapper();
    ledger_memory();
    counting_memory();
    std::puts("device_rules: passed");
}
