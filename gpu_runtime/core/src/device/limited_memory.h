// An adaptor that refuses memory beyond a limit, as a full device does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// Pages are made one at a time.
class LimitedMemory final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    // The most bytes to hold from now on. What is held already stays.
    void limit(std::size_t most) { most_ = most; }

    std::size_t free_bytes() override {
        return std::min(ForwardingMemory::free_bytes(), most_ - std::min(most_, held_));
    }
    Pages create_pages(std::size_t bytes) override {
        require(bytes);
        const Pages made = ForwardingMemory::create_pages(bytes);
        held_ += bytes;
        return made;
    }
    void release_pages(Pages pages) override {
        ForwardingMemory::release_pages(pages);
        held_ -= page_bytes();
    }
    Address allocate_plain(std::size_t bytes) override {
        require(bytes);
        const Address made = ForwardingMemory::allocate_plain(bytes);
        plain_[made] = bytes;
        held_ += bytes;
        return made;
    }
    void release_plain(Address address) override {
        ForwardingMemory::release_plain(address);
        held_ -= plain_.extract(address).mapped();
    }

  private:
    void require(std::size_t bytes) const {
        if (bytes <= most_ - std::min(most_, held_)) return;
        throw OutOfDeviceMemory("the process may reserve " + std::to_string(most_) +
                                " bytes here (set_per_process_memory_fraction), found " +
                                std::to_string(held_ + bytes));
    }

    std::size_t most_ = std::numeric_limits<std::size_t>::max();
    std::size_t held_ = 0;
    std::map<Address, std::size_t> plain_;
};

}  // namespace gapless::runtime
