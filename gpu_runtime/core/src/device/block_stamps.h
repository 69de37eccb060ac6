// An adaptor that stamps each block when it is handed out and compares it when it is freed.
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
// Rationale. No two live blocks may share a byte. Addresses cannot show this, because the same
// pages may appear at several addresses.
// Approach. Each block is stamped with words of its own, taken from a range of numbers that no
// other block gets. The host waits for the device after each stamp and each comparison. A block
// that another stream may still use when it is freed is compared when that stream is done, or when
// the allocator made any stream wait for it: behind such a wait another block may lie there. If
// memory is unmapped below a block, the block counts as overwritten and is not compared.
// Limits. The check does not record which stream waited: after one wait, any stream may get the
// block.
class BlockStamps final : public ForwardingMemory {
  public:
    // The allocator's calls go to `memory`. Stamps go to `device`, the device below it, on which
    // the allocations are made.
    BlockStamps(DeviceMemory& memory, DeviceMemory& device)
        : ForwardingMemory(memory), device_(device), stream_(device.own_stream()) {}

    void hand_out(std::uint64_t number, Address address, std::size_t bytes) {
        // Rounds up to kUnit; blocks exceed requests by more than this.
        const std::size_t stamped = (bytes + kUnit - 1) / kUnit * kUnit;
        live_[number] = {address, stamped, next_};
        const Address words = std::exchange(next_, next_ + stamped);
        in_pieces(stamped, [&](std::size_t at, std::size_t piece) {
            device_.stamp(address + at, piece, stream_, words + at);
        });
    }
    // Compares a block; does nothing if the block was compared before.
    void take_back(std::uint64_t number) {
        const auto found = live_.find(number);
        if (found == live_.end()) return;
        const Stamped block = found->second;
        live_.erase(found);
        in_pieces(block.bytes, [&](std::size_t at, std::size_t piece) {
            device_.compare(block.address + at, piece, stream_, number, block.words + at);
        });
    }
    // Compares the block only after the next event that is recorded on the stream.
    void take_back_after(std::uint64_t number, Stream stream) { used_on_[stream] = number; }
    void take_back_all() {
        while (!live_.empty()) take_back(live_.begin()->first);
    }
    // `pause` is called between two pieces of a block. It may throw; then nothing may be called any
    // more.
    void pause_between(std::function<void()> pause) { pause_ = std::move(pause); }
    // The overwritten pieces; `comparison` is the number of the block.
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
    static constexpr std::size_t kUnit = 16;  // bytes that a thread of the kernels handles
    // Bytes of one piece of work. A host fills a piece in tens of milliseconds; the largest tensors
    // would take seconds.
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
    // Has the device work on a block piece by piece, and waits for each piece.
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
    std::unordered_map<Address, std::size_t> plain_;  // bytes by address
    std::unordered_map<Stream, std::uint64_t> used_on_;
    std::unordered_map<Event, std::uint64_t> behind_;
};

}  // namespace gapless::runtime
