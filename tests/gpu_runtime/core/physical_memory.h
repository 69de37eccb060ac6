// Which physical bytes are behind an address: the same ones may be behind several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <stdexcept>
#include <vector>

#include "device/forwarding_memory.h"

namespace gapless::tests {

using namespace gapless::runtime;

// Bytes have numbers, which are never used again.
class PhysicalMemory final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    struct Stretch {
        std::uint64_t begin;
        std::uint64_t end;
    };

    // Throws std::logic_error where nothing is mapped.
    std::vector<Stretch> behind(Address address, std::size_t bytes) const {
        std::vector<Stretch> found;
        for (Address at = address; at < address + bytes;) {
            auto mapping = mapped_.upper_bound(at);
            if (mapping == mapped_.begin()) throw std::logic_error("memory is behind a block");
            --mapping;
            const auto& [begin, mapped] = *mapping;
            const Address end = std::min(begin + mapped.bytes, address + bytes);
            if (end <= at) throw std::logic_error("memory is behind a block");
            found.push_back({mapped.first + (at - begin), mapped.first + (end - begin)});
            at = end;
        }
        return found;
    }

    Pages create_pages(std::size_t bytes) override {
        const Pages pages = ForwardingMemory::create_pages(bytes);
        first_of_[pages] = next_;
        next_ += bytes;
        return pages;
    }
    void map(Address address, Pages pages, std::size_t bytes) override {
        ForwardingMemory::map(address, pages, bytes);
        mapped_[address] = {first_of_.at(pages), bytes};
    }
    void unmap(Address address, std::size_t bytes) override {
        ForwardingMemory::unmap(address, bytes);
        mapped_.erase(mapped_.lower_bound(address), mapped_.lower_bound(address + bytes));
    }
    Address allocate_plain(std::size_t bytes) override {
        const Address address = ForwardingMemory::allocate_plain(bytes);
        mapped_[address] = {next_, bytes};
        next_ += bytes;
        return address;
    }
    void release_plain(Address address) override {
        ForwardingMemory::release_plain(address);
        mapped_.erase(address);
    }

  private:
    struct Mapped {
        std::uint64_t first;
        std::size_t bytes;
    };
    std::map<Pages, std::uint64_t> first_of_;
    std::map<Address, Mapped> mapped_;
    std::uint64_t next_ = 0;
};

}  // namespace gapless::tests
