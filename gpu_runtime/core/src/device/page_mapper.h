// Pages that appear at an address and are opened, or neither.
#pragma once

#include <cstddef>
#include <span>

#include "device/device_memory.h"

namespace gapless::runtime {

// A device may refuse to open pages and then to take them back. Where they lie is remembered, and
// they are taken back before anything else is mapped.
class PageMapper {
  public:
    explicit PageMapper(DeviceMemory& memory) : memory_(memory) {}

    // Pages of `each` bytes, side by side from an address on. Throws DeviceCallError; then they are
    // mapped nowhere once settle() returned, and not to be released before.
    void map(Address address, std::span<const Pages> pages, std::size_t each) {
        settle();
        std::size_t mapped = 0;
        try {
            for (const Pages one : pages) {
                memory_.map(address + mapped, one, each);
                mapped += each;
            }
            memory_.set_access(address, mapped);
        } catch (...) {
            unopened_ = address;
            unopened_bytes_ = mapped;
            settle();
            throw;
        }
    }

    // Throws DeviceCallError.
    void settle() {
        if (unopened_bytes_ == 0) return;
        memory_.unmap(unopened_, unopened_bytes_);
        unopened_bytes_ = 0;
    }

  private:
    DeviceMemory& memory_;
    Address unopened_ = 0;
    std::size_t unopened_bytes_ = 0;  // mapped there, and not open
};

}  // namespace gapless::runtime
