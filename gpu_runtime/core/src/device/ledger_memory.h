// A simulated device that keeps accounts but has no memory: for the replay of millions of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "device/device_memory.h"
#include "device/stream_progress.h"

namespace gapless::runtime {

// When a stream is done with its work.
enum class LedgerStreams : std::uint8_t {
    at_once,
    when_told,  // by finish(), or because the host waited
};

// Enforces only two rules: memory stays within the capacity, and no address is mapped twice.
// Made-up addresses are never reused.
class LedgerMemory final : public DeviceMemory {
  public:
    LedgerMemory(std::size_t page_bytes, std::size_t capacity_bytes,
                 LedgerStreams streams = LedgerStreams::at_once);

    // The next plain allocations, or reserved ranges, get these addresses, as in a recorded run. An
    // address that plain memory occupies, or at which a range begins, is replaced by a made-up one.
    // Throws std::invalid_argument for address 0 and for addresses in the range of made-up ones.
    // map() throws the same if two dictated ranges would have memory at one address.
    void dictate_plain(const std::vector<Address>& addresses);
    void dictate_ranges(const std::vector<Address>& addresses);
    // Marks all work of the stream as done.
    void finish(Stream stream) { progress_.finish(stream); }
    // Marks that work of the stream as done that waits for nothing unfinished.
    void advance(Stream stream) { progress_.advance(stream); }

    std::size_t created_bytes() const { return created_bytes_; }
    std::size_t live_events() const { return live_events_; }

    std::size_t page_bytes() const override { return page_bytes_; }
    std::size_t free_bytes() override { return capacity_bytes_ - created_bytes_; }
    std::size_t total_bytes() override { return capacity_bytes_; }
    Address reserve_range(std::size_t bytes) override;
    void release_range(Address address, std::size_t bytes) override;
    Pages create_pages(std::size_t bytes) override;
    void release_pages(Pages pages) override;
    void map(Address address, Pages pages, std::size_t bytes) override;
    void set_access(Address /*address*/, std::size_t /*bytes*/) override {}
    void unmap(Address address, std::size_t bytes) override;
    Address allocate_plain(std::size_t bytes) override;
    void release_plain(Address address) override;
    Address allocate_host(std::size_t /*bytes*/) override { return 0; }
    void release_host(Address /*host*/) override {}
    void copy(Address /*target*/, Address /*source*/, std::size_t /*bytes*/) override {}
    void await_copies() override {}
    void synchronize() override;
    bool is_captured(Stream /*stream*/) override { return false; }
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void await(Event event) override;
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;

  private:
    // Returns the next dictated address, or a made-up one.
    Address next_address(std::deque<Address>& dictated, std::size_t bytes);
    void take(std::size_t bytes);

    const std::size_t page_bytes_;
    const std::size_t capacity_bytes_;
    const bool is_done_at_once_;
    Address next_address_;
    std::size_t created_bytes_ = 0;
    std::deque<Address> dictated_plain_;
    std::deque<Address> dictated_ranges_;
    bool are_ranges_dictated_ = false;
    std::vector<std::size_t> pages_;         // bytes by handle; 0 if released
    std::map<Address, std::size_t> mapped_;  // bytes by address
    std::map<Address, std::size_t> plain_;   // bytes by address
    // Begin addresses of ranges. Their lengths are unknown: recorded ranges may be shorter than
    // ours.
    std::set<Address> ranges_;
    StreamProgress progress_;
    std::vector<StreamProgress::Mark> events_;  // by handle
    std::vector<Event> free_events_;
    std::size_t live_events_ = 0;
};

}  // namespace gapless::runtime
