// PyTorch's default allocator, with segments of plain memory.
#pragma once

#include "online/pytorch_allocator.h"

namespace gapless::runtime {

class PytorchCaching final : public PytorchAllocator {
  public:
    // An allocator within another one counts in the account `whole` too.
    PytorchCaching(DeviceMemory& memory, const PytorchSettings& settings,
                   OnlineAccount* whole = nullptr)
        : PytorchAllocator(memory, settings, whole) {}

  private:
    PoolBlock* find(StreamPool& pool, std::size_t bytes) const override;
    bool is_split(const PoolBlock& block, std::size_t bytes) const override;
    PoolBlock* obtain(StreamPool& pool, std::size_t bytes) override;
    bool make_room(StreamPool& pool, std::size_t bytes) override;
    void collect_garbage() override;
    void release_idle(const std::set<PoolId>& pools) override;

    // Gives back segments that are one free block each. Throws DeviceCallError; then some stay.
    void release(const std::vector<PoolBlock*>& blocks);
};

}  // namespace gapless::runtime
