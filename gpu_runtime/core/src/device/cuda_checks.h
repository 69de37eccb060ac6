// The CUDA resources that find writes to free memory: two kernels, a stream and a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_functions.h"
#include "device/device_memory.h"

namespace gapless::runtime {

class CudaChecks {
  public:
    // Loads the kernels into a context of the device. `image` is the compiled
    // gpu_runtime/allocator/overwrite_kernels.cu. Throws DeviceCallError, OutOfDeviceMemory.
    CudaChecks(const CudaFunctions& cuda, void* context, const std::string& image);
    ~CudaChecks();
    CudaChecks(const CudaChecks&) = delete;
    CudaChecks& operator=(const CudaChecks&) = delete;

    // These have the meaning of own_stream() and its neighbours in DeviceMemory.
    Stream stream() const { return reinterpret_cast<Stream>(stream_); }
    void stamp(Address address, std::uint64_t bytes, Stream stream, Address words) const;
    void compare(Address address, std::uint64_t bytes, Stream stream, std::uint64_t number,
                 Address words) const;
    std::vector<Overwritten> overwritten() const;

  private:
    void launch(void* kernel, std::size_t bytes, Stream stream, void** arguments) const;
    void release();

    const CudaFunctions& cuda_;
    void* context_;
    void* module_ = nullptr;
    void* stamp_ = nullptr;
    void* compare_ = nullptr;
    void* stream_ = nullptr;
    Address slots_ = 0;
};

}  // namespace gapless::runtime
