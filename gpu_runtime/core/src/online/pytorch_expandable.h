// PyTorch's allocator with expandable segments, into which it maps pages as requests need them.
#pragma once

#include <array>
#include <exception>

#include "device/page_mapper.h"
#include "online/page_stock.h"
#include "online/pytorch_allocator.h"

namespace gapless::runtime {

// Each pool of a stream has one range of addresses, which is larger than the device's memory. New
// pages are mapped behind the mapped memory or into holes; a hole serves together with the free
// memory before it.
class PytorchExpandable final : public PytorchAllocator {
  public:
    // Throws std::invalid_argument, also if the device has no pages of the size in the settings.
    PytorchExpandable(DeviceMemory& memory, const PytorchSettings& settings);

  private:
    PoolBlock* find(StreamPool& pool, std::size_t bytes) const override;
    bool is_split(const PoolBlock& block, std::size_t bytes) const override;
    PoolBlock* obtain(StreamPool& pool, std::size_t bytes) override;
    void release_idle(const std::set<PoolId>& pools) override;

    PageStock& stock_of(const StreamPool& pool) { return stocks_[pool.is_small ? 0 : 1]; }
    // Returns a free or unmapped block at which a run of enough such bytes begins.
    PoolBlock& place_for(StreamPool& pool, std::size_t bytes);
    // Maps the first bytes of an unmapped block, and returns the free block that contains them.
    PoolBlock* map_block(PoolBlock& block, std::size_t bytes);
    // Unmaps the pages that lie completely in a free block.
    void unmap_block(PoolBlock& block);
    std::size_t unmap_pages(const PoolBlock& block, std::size_t first, std::size_t last,
                            std::exception_ptr& refused);
    void add_hole(PoolBlock& block, std::size_t first, std::size_t last);

    PageMapper mapper_;
    std::array<PageStock, 2> stocks_;
};

}  // namespace gapless::runtime
