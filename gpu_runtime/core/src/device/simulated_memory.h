// A simulated device in host memory: all rules of the allocators are tested without a GPU.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

// A stream that was made to wait for the work that another stream had by then.
struct Wait {
    Stream waiting;
    Stream awaited;
    std::uint64_t position;  // work submitted to `awaited` before the event
};

// Real bytes at real addresses. Pages are parts of a memory file and are mapped as a driver would
// map them, so an access outside of mapped memory ends the process as it ends a kernel. Streams are
// counters of submitted and finished work. Thread-safe: several allocators, each with its own lock,
// may share the device while a program submits work.
class SimulatedMemory final : public DeviceMemory {
  public:
    SimulatedMemory(std::size_t page_bytes, std::size_t capacity_bytes);
    ~SimulatedMemory() override;

    std::size_t page_bytes() const override { return page_bytes_; }
    std::size_t free_bytes() override;
    std::size_t total_bytes() override { return capacity_bytes_; }
    Address reserve_range(std::size_t bytes) override;
    void release_range(Address address, std::size_t bytes) override;
    Pages create_pages(std::size_t bytes) override;
    void release_pages(Pages pages) override;
    void map(Address address, Pages pages, std::size_t bytes) override;
    void set_access(Address address, std::size_t bytes) override;
    void unmap(Address address, std::size_t bytes) override;
    Address allocate_plain(std::size_t bytes) override;
    void release_plain(Address address) override;
    Address allocate_host(std::size_t bytes) override;
    void release_host(Address host) override;
    // Moves the bytes at once, but counts as unfinished work.
    void copy(Address target, Address source, std::size_t bytes) override;
    void await_copies() override;
    void synchronize() override;
    bool is_captured(Stream stream) override;
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void await(Event event) override;
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;
    Stream own_stream() override { return kOwnStream; }
    // Both touch the bytes at once, but count as unfinished work of the stream.
    void stamp(Address address, std::size_t bytes, Stream stream, Address words) override;
    void compare(Address address, std::size_t bytes, Stream stream, std::uint64_t number,
                 Address words) override;
    std::vector<Overwritten> overwritten() override { return locked(overwritten_); }

    // submit() adds work to a stream; finish() ends all of its work. Nothing may be unmapped while
    // work is unfinished, except memory outside of the `bytes` bytes at `address` that the work is
    // known to touch.
    void submit(Stream stream, Address address = 0, std::size_t bytes = 0);
    void finish(Stream stream);
    // Ends that work of a stream that waits for nothing unfinished.
    void advance(Stream stream);
    // From now on every recorded event counts as unfinished work, as on a ledger with
    // LedgerStreams::when_told. So an allocator behaves alike over both devices.
    void work_at_events() { are_events_work_ = true; }

    // The stream's submitted work continues; new work is refused.
    void destroy_stream(Stream stream);
    // Begins or ends the capture of a stream.
    void set_captured(Stream stream, bool is_captured);
    // Number of stamps, comparisons and events that became part of a graph and did nothing.
    std::uint64_t captured_work() const { return locked(captured_work_); }

    // Lets `failures` calls fail after `calls` more calls: creating pages and reserving ranges with
    // OutOfDeviceMemory, host memory with OutOfHostMemory, all others with DeviceCallError.
    void fail_after(std::uint64_t calls, std::uint64_t failures);

    std::size_t created_bytes() const { return locked(created_bytes_); }
    std::size_t mapped_bytes() const { return locked(mapped_bytes_); }
    // Number of allocations of host memory.
    std::size_t host_allocations() const {
        const std::lock_guard lock(mutex_);
        return host_.size();
    }
    std::size_t reserved_ranges() const { return locked(ranges_).size(); }
    std::size_t live_events() const { return locked(events_).size(); }
    std::uint64_t calls() const { return locked(calls_); }
    std::vector<Wait> waits() const { return locked(waits_); }

  private:
    static constexpr Stream kOwnStream = std::numeric_limits<Stream>::max() - 1;
    static constexpr Stream kCopyStream = kOwnStream - 1;
    static constexpr Stream kNone = kOwnStream - 2;

    struct Work {
        std::uint64_t position;
        Address begin;
        Address end;
    };
    // A position in a stream: the work and the waits that it had by then.
    struct EventState {
        Stream stream;
        std::uint64_t position;
        std::uint64_t waits;
    };
    struct StreamWait {
        std::uint64_t behind;  // work submitted to the stream before the wait
        std::uint64_t number;  // number among the stream's waits
        EventState awaited;
    };
    struct StreamState {
        std::uint64_t submitted = 0;
        std::uint64_t finished = 0;
        std::deque<Work> work;         // unfinished
        std::deque<StreamWait> waits;  // not known to be over
        std::uint64_t waited = 0;      // number of waits so far
    };
    struct PagesState {
        std::size_t file_offset;
        std::size_t bytes;
        std::size_t mappings;
    };
    struct Mapping {
        Pages pages;
        std::size_t bytes;
    };
    template <class T>
    T locked(const T& value) const {
        const std::lock_guard lock(mutex_);
        return value;
    }
    // Takes addresses from the host, with `spare` bytes more than needed.
    Address take_addresses(std::size_t bytes, std::size_t spare, int protection);
    void add_work(Stream stream, Address begin, Address end);
    void require_mapped(Address address, std::size_t bytes) const;
    // Work of the stream `except` does not count.
    void require_idle(Address begin, Address end, Stream except = kNone) const;
    void require_running(Stream stream);
    void finish_until(const EventState& end);
    bool is_finished(const EventState& end);
    void finish_all(Stream stream);
    bool fails();
    void may_fail(const char* call);

    mutable std::mutex mutex_;
    const std::size_t page_bytes_;
    const std::size_t capacity_bytes_;
    int file_;
    Address next_address_;
    std::size_t file_bytes_ = 0;
    std::size_t created_bytes_ = 0;
    std::size_t mapped_bytes_ = 0;
    bool are_events_work_ = false;
    std::uint64_t calls_ = 0;
    std::uint64_t calls_to_failure_ = 0;
    std::uint64_t failures_ = 0;
    std::uint64_t next_handle_ = 1;
    std::map<Address, std::size_t> ranges_;
    std::unordered_map<Pages, PagesState> pages_;
    std::map<Address, Mapping> mappings_;
    std::unordered_map<Address, std::size_t> plain_;  // bytes by address
    std::unordered_map<Address, std::unique_ptr<std::byte[]>> host_;
    std::unordered_map<Stream, StreamState> streams_;
    std::unordered_map<Event, EventState> events_;
    std::vector<Wait> waits_;
    std::set<Stream> captured_, gone_;
    std::uint64_t captured_work_ = 0;
    std::vector<Overwritten> overwritten_;
};

}  // namespace gapless::runtime
