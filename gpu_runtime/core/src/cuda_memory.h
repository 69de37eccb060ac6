// The memory of a CUDA device, through the driver: no toolkit is needed to build this.
#pragma once

#include <cstddef>

#include "device_memory.h"

namespace gapless::runtime {

struct CudaFunctions;

// Keeps the device's primary context, the one that PyTorch uses.
class CudaMemory final : public DeviceMemory {
  public:
    // Throws DeviceCallError where there is no driver or no such device.
    explicit CudaMemory(int device);
    ~CudaMemory() override;

    std::size_t page_bytes() const override { return page_bytes_; }
    std::size_t free_bytes() override;
    Address reserve_range(std::size_t bytes) override;
    void release_range(Address address, std::size_t bytes) override;
    Pages create_pages(std::size_t bytes) override;
    void release_pages(Pages pages) override;
    void map(Address address, Pages pages, std::size_t bytes) override;
    void unmap(Address address, std::size_t bytes) override;
    void synchronize() override;
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;

  private:
    const CudaFunctions& cuda_;
    int device_;
    void* context_ = nullptr;
    std::size_t page_bytes_ = 0;
};

}  // namespace gapless::runtime
