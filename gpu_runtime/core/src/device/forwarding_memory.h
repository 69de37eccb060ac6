// An adaptor that forwards all calls to another device; subclasses override some of them.
#pragma once

#include <cstddef>
#include <vector>

#include "device/device_memory.h"

namespace gapless::runtime {

class ForwardingMemory : public DeviceMemory {
  public:
    explicit ForwardingMemory(DeviceMemory& memory) : memory_(memory) {}

    std::size_t page_bytes() const override { return memory_.page_bytes(); }
    std::size_t free_bytes() override { return memory_.free_bytes(); }
    std::size_t total_bytes() override { return memory_.total_bytes(); }
    Address reserve_range(std::size_t bytes) override { return memory_.reserve_range(bytes); }
    void release_range(Address address, std::size_t bytes) override {
        memory_.release_range(address, bytes);
    }
    Pages create_pages(std::size_t bytes) override { return memory_.create_pages(bytes); }
    void release_pages(Pages pages) override { memory_.release_pages(pages); }
    void map(Address address, Pages pages, std::size_t bytes) override {
        memory_.map(address, pages, bytes);
    }
    void set_access(Address address, std::size_t bytes) override {
        memory_.set_access(address, bytes);
    }
    void unmap(Address address, std::size_t bytes) override { memory_.unmap(address, bytes); }
    void hide(Address address, std::size_t bytes) override { memory_.hide(address, bytes); }
    void show(Address address, std::size_t bytes) override { memory_.show(address, bytes); }
    Address allocate_plain(std::size_t bytes) override { return memory_.allocate_plain(bytes); }
    void release_plain(Address address) override { memory_.release_plain(address); }
    Address allocate_host(std::size_t bytes) override { return memory_.allocate_host(bytes); }
    void release_host(Address host) override { memory_.release_host(host); }
    void copy(Address target, Address source, std::size_t bytes) override {
        memory_.copy(target, source, bytes);
    }
    void await_copies() override { memory_.await_copies(); }
    void synchronize() override { memory_.synchronize(); }
    bool is_captured(Stream stream) override { return memory_.is_captured(stream); }
    std::uint64_t number_of(Stream stream) override { return memory_.number_of(stream); }
    Event record_event(Stream stream) override { return memory_.record_event(stream); }
    bool is_done(Event event) override { return memory_.is_done(event); }
    void await(Event event) override { memory_.await(event); }
    void make_wait(Stream stream, Event event) override { memory_.make_wait(stream, event); }
    void destroy_event(Event event) override { memory_.destroy_event(event); }
    Stream own_stream() override { return memory_.own_stream(); }
    void stamp(Address address, std::size_t bytes, Stream stream, Address words) override {
        memory_.stamp(address, bytes, stream, words);
    }
    void compare(Address address, std::size_t bytes, Stream stream, std::uint64_t number,
                 Address words) override {
        memory_.compare(address, bytes, stream, number, words);
    }
    std::vector<Overwritten> overwritten() override { return memory_.overwritten(); }

  private:
    DeviceMemory& memory_;
};

}  // namespace gapless::runtime
