// The functions of the CUDA driver that this core uses, with declarations of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device_memory.h"

namespace gapless::runtime {

using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kOutOfMemory = 2;
constexpr Status kInvalidHandle = 400;
constexpr Status kNotReady = 600;
constexpr Status kContextIsGone = 709;
constexpr Status kCapturedElsewhere = 906;
constexpr int kPinned = 1;     // pinned memory, the only allocation type
constexpr int kOnDevice = 1;   // a location type
constexpr int kReadWrite = 3;  // an access flag
constexpr int kMinimumGranularity = 0;
constexpr unsigned kWithoutTime = 2;  // an event without timing
constexpr unsigned kNonBlocking = 1;  // a stream that does not wait for the default stream
constexpr int kCapabilityMajor = 75;  // device attributes
constexpr int kCapabilityMinor = 76;

struct Location {
    int type;
    int id;
};
struct AllocationProperties {
    int type;
    int handle_types;
    Location location;
    void* win32_metadata;
    unsigned char compression;
    unsigned char gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
};
static_assert(sizeof(AllocationProperties) == 32);
struct Access {
    Location location;
    int flags;
};
static_assert(sizeof(Access) == 12);

struct CudaFunctions {
    Status (*init)(unsigned);
    Status (*device_get)(int*, int);
    Status (*retain_context)(void**, int);
    Status (*release_context)(int);
    Status (*push_context)(void*);
    Status (*pop_context)(void**);
    Status (*synchronize)();
    Status (*granularity)(std::size_t*, const AllocationProperties*, int);
    Status (*reserve)(Address*, std::size_t, std::size_t, Address, unsigned long long);
    Status (*free_range)(Address, std::size_t);
    Status (*create)(Pages*, std::size_t, const AllocationProperties*, unsigned long long);
    Status (*release)(Pages);
    Status (*map)(Address, std::size_t, std::size_t, Pages, unsigned long long);
    Status (*set_access)(Address, std::size_t, const Access*, std::size_t);
    Status (*unmap)(Address, std::size_t);
    Status (*allocate)(Address*, std::size_t);
    Status (*free)(Address);
    Status (*create_event)(void**, unsigned);
    Status (*record_event)(void*, void*);
    Status (*query_event)(void*);
    Status (*synchronize_event)(void*);
    Status (*wait_event)(void*, void*, unsigned);
    Status (*destroy_event)(void*);
    Status (*error_name)(Status, const char**);
    Status (*memory_info)(std::size_t*, std::size_t*);
    Status (*can_reach)(int*, int, int);
    Status (*stream_context)(void*, void**);
    Status (*stream_number)(void*, std::uint64_t*);  // null before CUDA 12
    Status (*attribute)(int*, int, int);
    Status (*device_name)(char*, int, int);
    Status (*load_module)(void**, const void*);
    Status (*unload_module)(void*);
    Status (*find_kernel)(void**, void*, const char*);
    Status (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
    Status (*create_stream)(void**, unsigned);
    Status (*synchronize_stream)(void*);
    Status (*destroy_stream)(void*);
    Status (*capture_status)(void*, int*);
    Status (*fill)(Address, unsigned char, std::size_t);
    Status (*copy_to_host)(void*, Address, std::size_t, void*);
    Status (*copy)(Address, Address, std::size_t, void*);
    Status (*allocate_host)(void**, std::size_t, unsigned);
    Status (*free_host)(void*);

    // Throws OutOfDeviceMemory or DeviceCallError, with the driver's name of the status.
    [[noreturn]] void refuse(const char* call, Status status) const;
    void require(Status status, const char* call) const {
        if (status != kSuccess) refuse(call, status);
    }
};

// Opens the driver at the first call; a later call tries again if that failed. Throws
// DeviceCallError.
const CudaFunctions& driver();

// Makes a context current for a scope: the calling thread may have none yet, or another device's.
class InContext {
  public:
    InContext(const CudaFunctions& cuda, void* context) : cuda_(cuda) {
        cuda_.require(cuda_.push_context(context), "cuCtxPushCurrent");
    }
    ~InContext() {
        void* popped = nullptr;
        cuda_.pop_context(&popped);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

  private:
    const CudaFunctions& cuda_;
};

inline void* as_handle(std::uint64_t value) { return reinterpret_cast<void*>(value); }

}  // namespace gapless::runtime
