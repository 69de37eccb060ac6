// An adaptor that counts the calls to a device by kind, and may time them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// One number for each kind of call.
struct DeviceCalls {
    std::uint64_t reserve_range = 0;
    std::uint64_t release_range = 0;
    std::uint64_t create_pages = 0;
    std::uint64_t release_pages = 0;
    std::uint64_t map = 0;
    std::uint64_t set_access = 0;
    std::uint64_t unmap = 0;
    std::uint64_t allocate_plain = 0;
    std::uint64_t release_plain = 0;
    std::uint64_t synchronize = 0;
    std::uint64_t record_event = 0;
    std::uint64_t await = 0;
    std::uint64_t make_wait = 0;
    std::uint64_t other = 0;  // queries, and destroyed events

    // Calls in which the host waits for the device.
    std::uint64_t host_waits() const { return synchronize + await; }
};

// With `is_timed`, each call reads a clock twice, which is slow compared with a call to a ledger.
// Thread-safe, if the device is: planned memory waits for the device without its lock.
class CountingMemory final : public ForwardingMemory {
  public:
    explicit CountingMemory(DeviceMemory& memory, bool is_timed = false)
        : ForwardingMemory(memory), is_timed_(is_timed) {}

    // Includes refused calls, because they cost as much.
    DeviceCalls calls() const {
        const std::lock_guard lock(mutex_);
        return calls_;
    }
    // Nanoseconds of all calls of a kind; 0 if calls are not timed.
    DeviceCalls nanoseconds() const {
        const std::lock_guard lock(mutex_);
        return nanoseconds_;
    }

    std::size_t free_bytes() override {
        return counted(&DeviceCalls::other, [&] { return ForwardingMemory::free_bytes(); });
    }
    std::size_t total_bytes() override {
        return counted(&DeviceCalls::other, [&] { return ForwardingMemory::total_bytes(); });
    }
    Address reserve_range(std::size_t bytes) override {
        return counted(&DeviceCalls::reserve_range,
                       [&] { return ForwardingMemory::reserve_range(bytes); });
    }
    void release_range(Address address, std::size_t bytes) override {
        counted(&DeviceCalls::release_range,
                [&] { ForwardingMemory::release_range(address, bytes); });
    }
    Pages create_pages(std::size_t bytes) override {
        return counted(&DeviceCalls::create_pages,
                       [&] { return ForwardingMemory::create_pages(bytes); });
    }
    void release_pages(Pages pages) override {
        counted(&DeviceCalls::release_pages, [&] { ForwardingMemory::release_pages(pages); });
    }
    void map(Address address, Pages pages, std::size_t bytes) override {
        counted(&DeviceCalls::map, [&] { ForwardingMemory::map(address, pages, bytes); });
    }
    void set_access(Address address, std::size_t bytes) override {
        counted(&DeviceCalls::set_access, [&] { ForwardingMemory::set_access(address, bytes); });
    }
    void unmap(Address address, std::size_t bytes) override {
        counted(&DeviceCalls::unmap, [&] { ForwardingMemory::unmap(address, bytes); });
    }
    Address allocate_plain(std::size_t bytes) override {
        return counted(&DeviceCalls::allocate_plain,
                       [&] { return ForwardingMemory::allocate_plain(bytes); });
    }
    void release_plain(Address address) override {
        counted(&DeviceCalls::release_plain, [&] { ForwardingMemory::release_plain(address); });
    }
    void synchronize() override {
        counted(&DeviceCalls::synchronize, [&] { ForwardingMemory::synchronize(); });
    }
    bool is_captured(Stream stream) override {
        return counted(&DeviceCalls::other, [&] { return ForwardingMemory::is_captured(stream); });
    }
    std::uint64_t number_of(Stream stream) override {
        return counted(&DeviceCalls::other, [&] { return ForwardingMemory::number_of(stream); });
    }
    Event record_event(Stream stream) override {
        return counted(&DeviceCalls::record_event,
                       [&] { return ForwardingMemory::record_event(stream); });
    }
    bool is_done(Event event) override {
        return counted(&DeviceCalls::other, [&] { return ForwardingMemory::is_done(event); });
    }
    void await(Event event) override {
        counted(&DeviceCalls::await, [&] { ForwardingMemory::await(event); });
    }
    void make_wait(Stream stream, Event event) override {
        counted(&DeviceCalls::make_wait, [&] { ForwardingMemory::make_wait(stream, event); });
    }
    void destroy_event(Event event) override {
        counted(&DeviceCalls::other, [&] { ForwardingMemory::destroy_event(event); });
    }

  private:
    using Clock = std::chrono::steady_clock;

    // Adds a call to the sums, whether it returns or throws.
    class Lap {
      public:
        Lap(CountingMemory& owner, std::uint64_t DeviceCalls::* kind)
            : owner_(owner),
              kind_(kind),
              begun_(owner.is_timed_ ? Clock::now() : Clock::time_point()) {}
        ~Lap() {
            const auto taken = owner_.is_timed_ ? Clock::now() - begun_ : Clock::duration::zero();
            const std::lock_guard lock(owner_.mutex_);
            ++(owner_.calls_.*kind_);
            owner_.nanoseconds_.*kind_ += static_cast<std::uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count());
        }
        Lap(const Lap&) = delete;
        Lap& operator=(const Lap&) = delete;

      private:
        CountingMemory& owner_;
        std::uint64_t DeviceCalls::* const kind_;
        const Clock::time_point begun_;
    };

    template <class Call>
    auto counted(std::uint64_t DeviceCalls::* kind, const Call& call) -> decltype(call()) {
        const Lap lap(*this, kind);
        return call();
    }

    const bool is_timed_;
    mutable std::mutex mutex_;
    DeviceCalls calls_, nanoseconds_;
};

}  // namespace gapless::runtime
