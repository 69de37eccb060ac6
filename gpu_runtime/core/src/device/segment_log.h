// A device that remembers what memory came when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/forwarding_memory.h"

namespace gapless::runtime {

// PyTorch records the same: memory that was allocated, or mapped and opened.
struct SegmentEntry {
    Address address;
    std::size_t bytes;
    std::int64_t row;
};

class SegmentLog final : public ForwardingMemory {
  public:
    using ForwardingMemory::ForwardingMemory;

    // Of the run that is replayed.
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
