// What PyTorch's libraries for CUDA and CUDA's runtime would define, on a machine without: two
// devices, whose streams are numbers that the program sets.
#include "cuda_stand_in.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <cstring>

namespace stand_in {

thread_local int device = 0;
thread_local std::uint64_t stream = 0;
int peer_copies = 0;

}  // namespace stand_in

namespace c10::cuda {

DeviceIndex current_device() { return static_cast<DeviceIndex>(stand_in::device); }
cudaError_t MaybeSetDevice(DeviceIndex device) {
    stand_in::device = device;
    return cudaSuccess;
}
CUDAStream getCurrentCUDAStream(DeviceIndex device) {
    return CUDAStream(CUDAStream::UNCHECKED,
                      c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::CUDA, device),
                                  static_cast<c10::StreamId>(stand_in::stream)));
}
cudaStream_t CUDAStream::stream() const { return reinterpret_cast<cudaStream_t>(id()); }

void c10_cuda_check_implementation(const int32_t error, const char*, const char*, const uint32_t,
                                   const bool) {
    TORCH_CHECK(error == 0, "CUDA error ", error);
}

namespace CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator{nullptr};
}

}  // namespace c10::cuda

extern "C" {

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t) {
    ++stand_in::peer_copies;
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &address, sizeof address);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    *free = *total = std::size_t{1} << 30;
    return cudaSuccess;
}
}
