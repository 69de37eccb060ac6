// A device that counts what it is asked, by kind, and how long it takes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// Refused calls count as well: they cost as much.
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
    double seconds = 0;  // in all of these, where they are timed
};

class CountingMemory final : public ForwardingMemory {
  public:
    explicit CountingMemory(DeviceMemory& memory, bool is_timed = false)
        : ForwardingMemory(memory), is_timed_(is_timed) {}

    const DeviceCalls& calls() const { return calls_; }

    Address reserve_range(std::size_t bytes) override {
        const Call call(*this, calls_.reserve_range);
        return ForwardingMemory::reserve_range(bytes);
    }
    void release_range(Address address, std::size_t bytes) override {
        const Call call(*this, calls_.release_range);
        ForwardingMemory::release_range(address, bytes);
    }
    Pages create_pages(std::size_t bytes) override {
        const Call call(*this, calls_.create_pages);
        return ForwardingMemory::create_pages(bytes);
    }
    void release_pages(Pages pages) override {
        const Call call(*this, calls_.release_pages);
        ForwardingMemory::release_pages(pages);
    }
    void map(Address address, Pages pages, std::size_t bytes) override {
        const Call call(*this, calls_.map);
        ForwardingMemory::map(address, pages, bytes);
    }
    void set_access(Address address, std::size_t bytes) override {
        const Call call(*this, calls_.set_access);
        ForwardingMemory::set_access(address, bytes);
    }
    void unmap(Address address, std::size_t bytes) override {
        const Call call(*this, calls_.unmap);
        ForwardingMemory::unmap(address, bytes);
    }
    Address allocate_plain(std::size_t bytes) override {
        const Call call(*this, calls_.allocate_plain);
        return ForwardingMemory::allocate_plain(bytes);
    }
    void release_plain(Address address) override {
        const Call call(*this, calls_.release_plain);
        ForwardingMemory::release_plain(address);
    }
    void synchronize() override {
        const Call call(*this, calls_.synchronize);
        ForwardingMemory::synchronize();
    }
    Event record_event(Stream stream) override {
        const Call call(*this, calls_.record_event);
        return ForwardingMemory::record_event(stream);
    }
    void await(Event event) override {
        const Call call(*this, calls_.await);
        ForwardingMemory::await(event);
    }
    void make_wait(Stream stream, Event event) override {
        const Call call(*this, calls_.make_wait);
        ForwardingMemory::make_wait(stream, event);
    }

  private:
    using Clock = std::chrono::steady_clock;

    // Lasts as long as a call does, refused or not.
    class Call {
      public:
        Call(CountingMemory& owner, std::uint64_t& count) : owner_(owner) {
            ++count;
            if (owner_.is_timed_) begun_ = Clock::now();
        }
        ~Call() {
            if (!owner_.is_timed_) return;
            const std::chrono::duration<double> lasted = Clock::now() - begun_;
            owner_.calls_.seconds += lasted.count();
        }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        CountingMemory& owner_;
        Clock::time_point begun_;
    };

    const bool is_timed_;
    DeviceCalls calls_;
};

}  // namespace gapless::runtime
