// The memory part of a CUDA driver with two devices, over simulated memory. It refuses calls that a
// real driver would refuse: before cuInit, without a current context, in another device's, to
// memory without access; and what would become a part of a graph.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/simulated_memory.h"

extern "C" int cuStreamIsCapturing(void* stream, int* status);

namespace {

using namespace gapless::runtime;

constexpr std::size_t kPage = std::size_t{2} << 20;
constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
              kInvalidDevice = 101, kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600,
              kDevices = 2;

SimulatedMemory memory(kPage, 64 * kPage);
bool initialized = false;
int primary_contexts = 0;
int contexts[kDevices];  // their addresses are the handles
thread_local std::vector<void*> current;
std::unordered_map<std::uint64_t, Event> recorded;  // by handle; 0 before it is recorded
std::unordered_map<std::uint64_t, void*> context_of_event, context_of_stream;
std::uint64_t next_event = 1;
std::set<Stream> at_work;
bool devices_reach_each_other = true;
std::map<std::uint64_t, std::set<int>> open_to;  // devices by the address of a mapping
std::string failing;                             // a call, or none
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

bool is_device(int device) { return device >= 0 && device < kDevices; }
bool on_device(Location location) { return location.type == 1 && is_device(location.id); }
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
int status_of(const std::string& name, Call&& call) {
    if (!initialized) return kNotInitialized;
    if (current.empty()) return kInvalidContext;
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

template <class Do>
void for_each_mapping(Address address, std::size_t bytes, Do&& act) {
    const auto end = open_to.lower_bound(address + bytes);
    for (auto mapping = open_to.lower_bound(address); mapping != end; ++mapping) {
        act(mapping->second);
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
    return *device = ordinal, is_device(ordinal) ? kSuccess : kInvalidDevice;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
    if (told_to_fail("cuDeviceCanAccessPeer")) return failing_status;
    *can = devices_reach_each_other ? 1 : 0;
    return is_device(device) && is_device(peer) && device != peer ? kSuccess : kInvalidDevice;
}
int cuDevicePrimaryCtxRetain(void** found, int device) {
    return *found = &contexts[device], ++primary_contexts, kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int) { return --primary_contexts, kSuccess; }
int cuCtxPushCurrent_v2(void* pushed) {
    for (int& context : contexts) {
        if (pushed == &context) return current.push_back(pushed), kSuccess;
    }
    return kInvalidContext;
}
int cuCtxPopCurrent_v2(void** popped) {
    if (current.empty()) return kInvalidContext;
    return *popped = current.back(), current.pop_back(), kSuccess;
}
int cuStreamGetCtx(void* stream, void** found) {
    return status_of("cuStreamGetCtx", [&] {
        const auto its = context_of_stream.find(number(stream));
        *found = its == context_of_stream.end() ? current.back() : its->second;
    });
}
int cuCtxSynchronize() {
    return status_of("cuCtxSynchronize", [] {
        for (const Stream stream : at_work) {
            const auto its = context_of_stream.find(stream);
            if (its == context_of_stream.end() || its->second == current.back()) {
                memory.finish(stream);
            }
        }
    });
}
int cuMemGetAllocationGranularity(std::size_t* bytes, const Properties* properties, int) {
    if (told_to_fail("cuMemGetAllocationGranularity")) return failing_status;
    return *bytes = kPage, pinned_on_device(properties) ? kSuccess : kInvalidValue;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    return status_of("cuMemGetInfo", [&] { *free = memory.free_bytes(), *total = 64 * kPage; });
}
int cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address,
                        unsigned long long) {
    return status_of("cuMemAddressReserve", [&] { *address = memory.reserve_range(bytes); });
}
int cuMemAddressFree(Address address, std::size_t bytes) {
    return status_of("cuMemAddressFree", [&] { memory.release_range(address, bytes); });
}
int cuMemCreate(Pages* pages, std::size_t bytes, const Properties* properties, unsigned long long) {
    return status_of("cuMemCreate", [&] {
        if (!pinned_on_device(properties)) return kInvalidValue;
        return *pages = memory.create_pages(bytes), kSuccess;
    });
}
int cuMemRelease(Pages pages) {
    return status_of("cuMemRelease", [&] { memory.release_pages(pages); });
}
int cuMemMap(Address address, std::size_t bytes, std::size_t, Pages pages, unsigned long long) {
    return status_of("cuMemMap", [&] {
        memory.map(address, pages, bytes);
        open_to[address].clear();
    });
}
int cuMemSetAccess(Address address, std::size_t bytes, const Access* access, std::size_t count) {
    return status_of("cuMemSetAccess", [&] {
        memory.set_access(address, bytes);
        for (std::size_t i = 0; i < count; ++i) {
            if (!on_device(access[i].location) || access[i].flags != 3) return kInvalidValue;
            for_each_mapping(address, bytes,
                             [&](auto& devices) { devices.insert(access[i].location.id); });
        }
        return kSuccess;
    });
}
int cuMemUnmap(Address address, std::size_t bytes) {
    return status_of("cuMemUnmap", [&] {
        memory.unmap(address, bytes);
        open_to.erase(open_to.lower_bound(address), open_to.lower_bound(address + bytes));
    });
}
int cuMemAlloc_v2(Address* address, std::size_t bytes) {
    return status_of("cuMemAlloc", [&] { *address = memory.allocate_plain(bytes); });
}
int cuMemFree_v2(Address address) {
    return status_of("cuMemFree", [&] { memory.release_plain(address); });
}
int cuMemHostAlloc(void** host, std::size_t bytes, unsigned flags) {
    return status_of("cuMemHostAlloc", [&] {
        if (flags != 0) return kInvalidValue;
        return *host = reinterpret_cast<void*>(memory.allocate_host(bytes)), kSuccess;
    });
}
int cuMemFreeHost(void* host) {
    return status_of("cuMemFreeHost", [&] { memory.release_host(number(host)); });
}
int cuMemcpyAsync(Address target, Address source, std::size_t bytes, void* stream) {
    return status_of("cuMemcpyAsync", [&] {
        if (stream == nullptr) return kInvalidValue;  // the default stream waits for others
        memory.copy(target, source, bytes), memory.await_copies();
        return kSuccess;
    });
}
int cuEventCreate(std::uint64_t* event, unsigned flags) {
    return status_of("cuEventCreate", [&] {
        if (flags != 2) return kInvalidValue;  // timing makes it slower
        context_of_event[*event = next_event++] = current.back();
        return recorded[*event] = 0, kSuccess;
    });
}
int cuEventRecord(void* event, void* stream) {
    return status_of("cuEventRecord", [&] {
        int status = 0;
        cuStreamIsCapturing(stream, &status);
        if (status != 0) return kInvalidValue;
        const auto its = context_of_stream.find(number(stream));
        void* where = its == context_of_stream.end() ? current.back() : its->second;
        if (where != context_of_event.at(number(event))) return kInvalidHandle;
        return recorded.at(number(event)) = memory.record_event(number(stream)), kSuccess;
    });
}
int cuEventQuery(void* event) {
    return status_of("cuEventQuery", [&] {
        return memory.is_done(recorded.at(number(event))) ? kSuccess : kNotReady;
    });
}
int cuEventSynchronize(void* event) {
    return status_of("cuEventSynchronize", [&] { memory.await(recorded.at(number(event))); });
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    return status_of("cuStreamWaitEvent",
                     [&] { memory.make_wait(number(stream), recorded.at(number(event))); });
}
int cuEventDestroy_v2(void* event) {
    return status_of("cuEventDestroy_v2", [&] {
        if (const Event made = recorded.at(number(event)); made != 0) memory.destroy_event(made);
        recorded.erase(number(event));
    });
}

// For the tests.
int host_depth() { return static_cast<int>(current.size()); }
int host_primary_contexts() { return primary_contexts; }
std::size_t host_events() { return recorded.size(); }
std::size_t host_waits() { return memory.waits().size(); }
std::size_t host_created_bytes() { return memory.created_bytes(); }
std::size_t host_allocations() { return memory.host_allocations(); }
std::size_t host_mapped_bytes() { return memory.mapped_bytes(); }
void host_submit(Stream stream) { at_work.insert(stream), memory.submit(stream); }
void host_finish(Stream stream) { memory.finish(stream); }
void host_stream_on(Stream stream, int device) { context_of_stream[stream] = &contexts[device]; }
void host_keep_devices_apart() { devices_reach_each_other = false; }
// How many ranges a device may use.
std::size_t host_open_to(int device) {
    std::size_t count = 0;
    for (const auto& [address, devices] : open_to) count += devices.count(device);
    return count;
}
// The next call of this name is answered by the status.
void host_fail(const char* call, int status) {
    failing = call;
    failing_status = status;
}
}
#pragma GCC visibility pop
