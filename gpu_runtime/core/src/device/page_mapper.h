// Maps pages and makes them accessible, or does neither.
#pragma once

#include <cstddef>
#include <span>

#include "device/device_memory.h"

namespace gapless::runtime {

// A device may refuse to make pages accessible and then refuse to unmap them. Their place is
// remembered, and they are unmapped before anything else is mapped.
class PageMapper {
  public:
    explicit PageMapper(DeviceMemory& memory) : memory_(memory) {}

    // Maps pages of `each` bytes side by side, from `address` on. Throws DeviceCallError; then the
    // pages are mapped nowhere once settle() has returned, and must not be released before that.
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

    // Unmaps pages that could not be made accessible. Throws DeviceCallError.
    void settle() {
        if (unopened_bytes_ == 0) return;
        memory_.unmap(unopened_, unopened_bytes_);
        unopened_bytes_ = 0;
    }

  private:
    DeviceMemory& memory_;
    Address unopened_ = 0;
    std::size_t unopened_bytes_ = 0;  // mapped at unopened_ and not accessible
};

}  // namespace gapless::runtime
