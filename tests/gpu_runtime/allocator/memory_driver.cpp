// The memory part of a CUDA driver, over the simulated device. It refuses calls that a real driver
// would refuse: before cuInit, without a current context, to memory without access.

#include <sys/mman.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "simulated_memory.h"

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
              kInvalidDevice = 101, kInvalidContext = 201, kNotReady = 600, kUnknown = 999;

SimulatedMemory memory(kPage, 64 * kPage);
bool initialized = false;
int primary_contexts = 0;
int context;  // its address is the handle
thread_local int depth = 0;
std::unordered_map<std::uint64_t, Event> recorded;  // by handle; 0 before it is recorded
std::uint64_t next_event = 1;
std::string failing;  // a call, or none
int failing_status = kSuccess;

struct Location {
    int type, id;
};
struct Properties {
    int type, handle_types;
    Location location;
    void* win32;
    unsigned char flags[8];
};
struct Access {
    Location location;
    int flags;
};

bool on_device(Location location) { return location.type == 1 && location.id == 0; }
bool pinned_on_device(const Properties* p) {
    return p->type == 1 && p->handle_types == 0 && on_device(p->location);
}

bool told_to_fail(const std::string& call) {
    if (call != failing) return false;
    failing.clear();
    return true;
}

// Runs a call of the driver, and says what became of it as a driver does.
template <class Call>
int answer(const std::string& name, Call&& call) {
    if (!initialized) return kNotInitialized;
    if (depth == 0) return kInvalidContext;
    if (told_to_fail(name)) return failing_status;
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return kSuccess;
        } else {
            return call();
        }
    } catch (const OutOfDeviceMemory&) {
        return kOutOfMemory;
    } catch (const std::exception&) {
        return kInvalidValue;
    }
}

std::uint64_t number(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuInit(unsigned) { return initialized = true, kSuccess; }
int cuGetErrorName(int status, const char** name) {
    *name = status == kOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
            : status == kInvalidDevice  ? "CUDA_ERROR_INVALID_DEVICE"
            : status == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
            : status == kInvalidValue   ? "CUDA_ERROR_INVALID_VALUE"
                                        : nullptr;
    return *name == nullptr ? kInvalidValue : kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
    return *device = ordinal, ordinal == 0 ? kSuccess : kInvalidDevice;
}
int cuDevicePrimaryCtxRetain(void** found, int) {
    return *found = &context, ++primary_contexts, kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return --primary_contexts, kSuccess; }
int cuCtxPushCurrent_v2(void* pushed) {
    return pushed == &context ? ++depth, kSuccess : kInvalidContext;
}
int cuCtxPopCurrent_v2(void** popped) {
    return *popped = &context, depth-- > 0 ? kSuccess : kInvalidContext;
}
int cuCtxSynchronize() {
    return answer("cuCtxSynchronize", [] { memory.synchronize(); });
}
int cuMemGetAllocationGranularity(std::size_t* bytes, const Properties* properties, int) {
    if (told_to_fail("cuMemGetAllocationGranularity")) return failing_status;
    return *bytes = kPage, pinned_on_device(properties) ? kSuccess : kInvalidValue;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    return answer("cuMemGetInfo", [&] { *free = memory.free_bytes(), *total = 64 * kPage; });
}
int cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address,
                        unsigned long long) {
    return answer("cuMemAddressReserve", [&] { *address = memory.reserve_range(bytes); });
}
int cuMemAddressFree(Address address, std::size_t bytes) {
    return answer("cuMemAddressFree", [&] { memory.release_range(address, bytes); });
}
int cuMemCreate(Pages* pages, std::size_t bytes, const Properties* properties, unsigned long long) {
    return answer("cuMemCreate", [&] {
        if (!pinned_on_device(properties)) return kInvalidValue;
        return *pages = memory.create_pages(bytes), kSuccess;
    });
}
int cuMemRelease(Pages pages) {
    return answer("cuMemRelease", [&] { memory.release_pages(pages); });
}
int cuMemMap(Address address, std::size_t bytes, std::size_t, Pages pages, unsigned long long) {
    return answer("cuMemMap", [&] {
        memory.map(address, pages, bytes);
        mprotect(reinterpret_cast<void*>(address), bytes, PROT_NONE);
    });
}
int cuMemSetAccess(Address address, std::size_t bytes, const Access* access, std::size_t count) {
    return answer("cuMemSetAccess", [&] {
        if (count != 1 || !on_device(access->location) || access->flags != 3) return kInvalidValue;
        return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0
                   ? kSuccess
                   : kUnknown;
    });
}
int cuMemUnmap(Address address, std::size_t bytes) {
    return answer("cuMemUnmap", [&] { memory.unmap(address, bytes); });
}
int cuEventCreate(std::uint64_t* event, unsigned flags) {
    return answer("cuEventCreate", [&] {
        if (flags != 2) return kInvalidValue;  // timing makes it slower
        return recorded[*event = next_event++] = 0, kSuccess;
    });
}
int cuEventRecord(void* event, void* stream) {
    return answer("cuEventRecord",
                  [&] { recorded.at(number(event)) = memory.record_event(number(stream)); });
}
int cuEventQuery(void* event) {
    return answer("cuEventQuery", [&] {
        return memory.is_done(recorded.at(number(event))) ? kSuccess : kNotReady;
    });
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    return answer("cuStreamWaitEvent",
                  [&] { memory.make_wait(number(stream), recorded.at(number(event))); });
}
int cuEventDestroy_v2(void* event) {
    return answer("cuEventDestroy_v2", [&] {
        if (const Event made = recorded.at(number(event)); made != 0) memory.destroy_event(made);
        recorded.erase(number(event));
    });
}

// For the tests.
int host_depth() { return depth; }
int host_primary_contexts() { return primary_contexts; }
std::size_t host_events() { return recorded.size(); }
std::size_t host_waits() { return memory.waits().size(); }
std::size_t host_created_bytes() { return memory.created_bytes(); }
std::size_t host_mapped_bytes() { return memory.mapped_bytes(); }
void host_submit(Stream stream) { memory.submit(stream); }
void host_finish(Stream stream) { memory.finish(stream); }
// The next call of this name is answered by the status.
void host_fail(const char* call, int status) {
    failing = call;
    failing_status = status;
}
}
#pragma GCC visibility pop
