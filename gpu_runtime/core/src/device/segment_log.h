// An adaptor that records when memory becomes accessible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// One entry, as in PyTorch's history: memory was allocated, or mapped and made accessible.
struct SegmentEntry {
    Address address;
    std::size_t bytes;
    std::int64_t row;
};

class SegmentLog final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    // Sets the row of the replayed recording that new entries get.
    void set_row(std::int64_t row) { row_ = row; }
    const std::vector<SegmentEntry>& entries() const { return entries_; }

    void set_access(Address address, std::size_t bytes) override {
        ForwardingMemory::set_access(address, bytes);
        entries_.push_back({address, bytes, row_});
    }
    Address allocate_plain(std::size_t bytes) override {
        const Address address = ForwardingMemory::allocate_plain(bytes);
        entries_.push_back({address, bytes, row_});
        return address;
    }

  private:
    std::int64_t row_ = -1;
    std::vector<SegmentEntry> entries_;
};

}  // namespace gapless::runtime
