// Blocks that are filled when they are handed out, and looked at when they are freed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/forwarding_memory.h"
#include "device/free_word.h"

namespace gapless::runtime {

// Note [Stamped blocks]
// ~~~~~~~~~~~~~~~~~~~~~
// Rationale. No two live blocks may share a byte. Addresses do not tell: pages appear at several.
// Approach. Each block has words of its own, those of a stretch of numbers that no other block
// gets, and the device is waited for after each stamp and each look. A block that another stream
// may be at work in when it is freed is looked at when that stream is done, or when the allocator
// had somebody wait for it: what comes behind a wait may lie there. Memory that goes away beneath a
// block counts as written to, and is not looked at.
// Limits. Who waited is not told apart, so that after one wait anybody may have the block.
class BlockStamps final : public ForwardingMemory {
  public:
    // What an allocator asks goes to `memory`; stamps go to `device`, beneath it, whose
    // allocations these are.
    BlockStamps(DeviceMemory& memory, DeviceMemory& device)
        : ForwardingMemory(memory), device_(device), stream_(device.own_stream()) {}

    void hand_out(std::uint64_t number, Address address, std::size_t bytes) {
        // Blocks are larger than requests by more than this.
        const std::size_t stamped = (bytes + kUnit - 1) / kUnit * kUnit;
        live_[number] = {address, stamped, next_};
        const Address words = std::exchange(next_, next_ + stamped);
        in_pieces(stamped, [&](std::size_t at, std::size_t piece) {
            device_.stamp(address + at, piece, stream_, words + at);
        });
    }
    // Nothing where the block was looked at before.
    void take_back(std::uint64_t number) {
        const auto found = live_.find(number);
        if (found == live_.end()) return;
        const Stamped block = found->second;
        live_.erase(found);
        in_pieces(block.bytes, [&](std::size_t at, std::size_t piece) {
            device_.compare(block.address + at, piece, stream_, number, block.words + at);
        });
    }
    // The stream is at work there until the next event that is recorded on it.
    void take_back_after(std::uint64_t number, Stream stream) { used_on_[stream] = number; }
    void take_back_all() {
        while (!live_.empty()) take_back(live_.begin()->first);
    }
    // Is called between two pieces of any block, and may throw, after which nothing more is to
    // come.
    void pause_between(std::function<void()> pause) { pause_ = std::move(pause); }
    // In which pieces of which blocks, by number.
    std::vector<Overwritten> found() {
        std::vector<Overwritten> all = device_.overwritten();
        all.insert(all.end(), gone_.begin(), gone_.end());
        return all;
    }

    void unmap(Address address, std::size_t bytes) override {
        lose(address, bytes);
        ForwardingMemory::unmap(address, bytes);
    }
    Address allocate_plain(std::size_t bytes) override {
        const Address address = ForwardingMemory::allocate_plain(bytes);
        plain_[address] = bytes;
        return address;
    }
    void release_plain(Address address) override {
        lose(address, plain_[address]);
        ForwardingMemory::release_plain(address);
    }
    Event record_event(Stream stream) override {
        const Event event = ForwardingMemory::record_event(stream);
        if (const auto used = used_on_.find(stream); used != used_on_.end()) {
            behind_[event] = used->second;
            used_on_.erase(used);
        }
        return event;
    }
    void await(Event event) override {
        ForwardingMemory::await(event);
        pass(event);
    }
    void make_wait(Stream stream, Event event) override {
        ForwardingMemory::make_wait(stream, event);
        pass(event);
    }
    void synchronize() override {
        ForwardingMemory::synchronize();
        for (const auto& [event, number] : behind_) take_back(number);
        behind_.clear();
    }
    void destroy_event(Event event) override {
        behind_.erase(event);
        ForwardingMemory::destroy_event(event);
    }

  private:
    static constexpr std::size_t kUnit = 16;  // what kernels work on
    // A host fills so much in tens of milliseconds; the largest tensors take seconds.
    static constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

    struct Stamped {
        Address address;
        std::size_t bytes;
        Address words;
    };
    void pass(Event event) {
        if (const auto found = behind_.find(event); found != behind_.end()) {
            take_back(found->second);
            behind_.erase(found);
        }
    }
    void lose(Address address, std::size_t bytes) {
        std::erase_if(live_, [&](const auto& entry) {
            const auto& [number, block] = entry;
            if (block.address >= address + bytes || block.address + block.bytes <= address) {
                return false;
            }
            gone_.push_back({number, block.address, block.bytes / kWordBytes});
            return true;
        });
    }
    // Has the device work on a block piece by piece, and waits for each.
    template <class Work>
    void in_pieces(std::size_t bytes, const Work& work) {
        for (std::size_t at = 0; at < bytes; at += kPieceBytes) {
            work(at, std::min(kPieceBytes, bytes - at));
            const Event event = device_.record_event(stream_);
            device_.await(event);
            device_.destroy_event(event);
            if (pause_) pause_();
        }
    }

    DeviceMemory& device_;
    const Stream stream_;
    std::function<void()> pause_;
    Address next_ = 0;
    std::unordered_map<std::uint64_t, Stamped> live_;
    std::vector<Overwritten> gone_;
    std::unordered_map<Address, std::size_t> plain_;  // bytes
    std::unordered_map<Stream, std::uint64_t> used_on_;
    std::unordered_map<Event, std::uint64_t> behind_;
};

}  // namespace gapless::runtime
