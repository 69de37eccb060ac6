// PyTorch's allocator with expandable segments: pages are mapped where memory is asked for.
#pragma once

#include <array>
#include <exception>

#include "device/page_mapper.h"
#include "online/page_stock.h"
#include "online/pytorch_allocator.h"

namespace gapless::runtime {

// A pool of a stream has one range of addresses, with room for more than all of the device. Pages
// come behind what is mapped, or into holes; free memory before a hole is used together with it.
class PytorchExpandable final : public PytorchAllocator {
  public:
    // Throws std::invalid_argument, also where the device has no pages as the settings want them.
    PytorchExpandable(DeviceMemory& memory, const PytorchSettings& settings);

  private:
    PoolBlock* find(StreamPool& pool, std::size_t bytes) const override;
    bool is_split(const PoolBlock& block, std::size_t bytes) const override;
    PoolBlock* obtain(StreamPool& pool, std::size_t bytes) override;
    void release_idle() override;
    void check_segment(const PoolSegment& segment) const override;

    PageStock& stock_of(const StreamPool& pool) { return stocks_[pool.is_small ? 0 : 1]; }
    // A free or unmapped block from which on there is room.
    PoolBlock& place_for(StreamPool& pool, std::size_t bytes);
    // Maps the first bytes of an unmapped block; returns the free block they are a part of.
    PoolBlock* map_block(PoolBlock& block, std::size_t bytes);
    // Takes the pages away that lie in a free block as a whole.
    void unmap_block(PoolBlock& block);
    std::size_t unmap_pages(const PoolBlock& block, std::size_t first, std::size_t last,
                            std::exception_ptr& refused);
    void add_hole(PoolBlock& block, std::size_t first, std::size_t last);

    PageMapper mapper_;
    std::array<PageStock, 2> stocks_;
};

}  // namespace gapless::runtime
