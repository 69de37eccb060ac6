// A device that keeps accounts and has no memory: for the replay of millions of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// Whether a stream is done with what it was given.
enum class LedgerStreams : std::uint8_t {
    at_once,
    when_told,  // by finish(), or because somebody waited
};

// Holds an allocator to two rules only: there is no more memory than the capacity, and no address
// is mapped twice. Addresses are never given out again.
class LedgerMemory final : public DeviceMemory {
  public:
    LedgerMemory(std::size_t page_bytes, std::size_t capacity_bytes,
                 LedgerStreams streams = LedgerStreams::at_once);

    // The next plain allocations, or reserved ranges, lie at these addresses, as they did in a
    // recorded run; where there is plain memory, or a range begins, already, at a new one. Throws
    // std::invalid_argument for 0 and what could be an address that is made up here, and so does
    // map() where two dictated ranges would hold memory at one address.
    void dictate_plain(const std::vector<Address>& addresses);
    void dictate_ranges(const std::vector<Address>& addresses);
    // The stream is done with all that it was given so far.
    void finish(Stream stream);

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
    void synchronize() override;
    bool is_captured(Stream /*stream*/) override { return false; }
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void await(Event event) override;
    void make_wait(Stream /*stream*/, Event /*event*/) override {}
    void destroy_event(Event event) override;

  private:
    struct StreamState {
        std::uint64_t recorded = 0;  // events so far
        std::uint64_t done = 0;
    };
    struct EventState {
        std::size_t stream;  // an index
        std::uint64_t number;
    };
    std::size_t index_of(Stream stream);
    // What is dictated next, or made up.
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
    std::vector<std::size_t> pages_;         // bytes by handle; 0 where they were released
    std::map<Address, std::size_t> mapped_;  // bytes by address
    std::map<Address, std::size_t> plain_;   // the same
    // Where ranges begin. How long they are depends on the device: recorded ones may be shorter.
    std::set<Address> ranges_;
    std::unordered_map<Stream, std::size_t> stream_index_;
    std::vector<StreamState> streams_;
    std::vector<EventState> events_;  // by handle
    std::vector<Event> free_events_;
    std::size_t live_events_ = 0;
};

}  // namespace gapless::runtime
