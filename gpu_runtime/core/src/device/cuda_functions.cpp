#include "device/cuda_functions.h"

#include <dlfcn.h>

#include <string>

namespace gapless::runtime {

namespace {

template <class Function>
void find_if_there(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
    find_if_there(library, name, function);
    if (function == nullptr) {
        throw DeviceCallError(std::string("the CUDA driver has no function ") + name +
                              "; CUDA 11.4 or newer is needed");
    }
}

CudaFunctions open_driver() {
    constexpr const char* kLibrary = "libcuda.so.1";
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        throw DeviceCallError(std::string("no CUDA driver: ") + kLibrary + " cannot be opened (" +
                              dlerror() + "); install NVIDIA's driver");
    }
    CudaFunctions cuda{};
    find(library, "cuGetErrorName", cuda.error_name);
    find(library, "cuInit", cuda.init);
    find(library, "cuDeviceGet", cuda.device_get);
    find(library, "cuDevicePrimaryCtxRetain", cuda.retain_context);
    find(library, "cuDevicePrimaryCtxRelease_v2", cuda.release_context);
    find(library, "cuCtxPushCurrent_v2", cuda.push_context);
    find(library, "cuCtxPopCurrent_v2", cuda.pop_context);
    find(library, "cuCtxSynchronize", cuda.synchronize);
    find(library, "cuMemGetAllocationGranularity", cuda.granularity);
    find(library, "cuMemAddressReserve", cuda.reserve);
    find(library, "cuMemAddressFree", cuda.free_range);
    find(library, "cuMemCreate", cuda.create);
    find(library, "cuMemRelease", cuda.release);
    find(library, "cuMemMap", cuda.map);
    find(library, "cuMemSetAccess", cuda.set_access);
    find(library, "cuMemUnmap", cuda.unmap);
    find(library, "cuMemAlloc_v2", cuda.allocate);
    find(library, "cuMemFree_v2", cuda.free);
    find(library, "cuEventCreate", cuda.create_event);
    find(library, "cuEventRecord", cuda.record_event);
    find(library, "cuEventQuery", cuda.query_event);
    find(library, "cuEventSynchronize", cuda.synchronize_event);
    find(library, "cuStreamWaitEvent", cuda.wait_event);
    find(library, "cuEventDestroy_v2", cuda.destroy_event);
    find(library, "cuMemGetInfo_v2", cuda.memory_info);
    find(library, "cuDeviceCanAccessPeer", cuda.can_reach);
    find(library, "cuStreamGetCtx", cuda.stream_context);
    find_if_there(library, "cuStreamGetId", cuda.stream_number);
    find(library, "cuDeviceGetAttribute", cuda.attribute);
    find(library, "cuDeviceGetName", cuda.device_name);
    find(library, "cuModuleLoadData", cuda.load_module);
    find(library, "cuModuleUnload", cuda.unload_module);
    find(library, "cuModuleGetFunction", cuda.find_kernel);
    find(library, "cuLaunchKernel", cuda.launch);
    find(library, "cuStreamCreate", cuda.create_stream);
    find(library, "cuStreamSynchronize", cuda.synchronize_stream);
    find(library, "cuStreamDestroy_v2", cuda.destroy_stream);
    find(library, "cuStreamIsCapturing", cuda.capture_status);
    find(library, "cuMemsetD8_v2", cuda.fill);
    find(library, "cuMemcpyDtoHAsync_v2", cuda.copy_to_host);
    find(library, "cuMemcpyAsync", cuda.copy);
    find(library, "cuMemHostAlloc", cuda.allocate_host);
    find(library, "cuMemFreeHost", cuda.free_host);
    cuda.require(cuda.init(0), "cuInit");
    return cuda;
}

}  // namespace

const CudaFunctions& driver() {
    static const CudaFunctions cuda = open_driver();
    return cuda;
}

void CudaFunctions::refuse(const char* call, Status status) const {
    const char* name = nullptr;
    error_name(status, &name);
    const std::string text = std::string(call) + ": " + (name == nullptr ? "unknown error" : name) +
                             " (" + std::to_string(status) + ")";
    if (status == kOutOfMemory) throw OutOfDeviceMemory(text);
    throw DeviceCallError(text);
}

}  // namespace gapless::runtime
