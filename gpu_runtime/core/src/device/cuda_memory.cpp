#include "device/cuda_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <string>

namespace gapless::runtime {

namespace {

// Declarations of the driver's interface, as far as it is used here.
using Status = int;
constexpr Status kSuccess = 0;
constexpr Status kOutOfMemory = 2;
constexpr Status kNotReady = 600;
constexpr int kPinned = 1;     // memory that stays where it is
constexpr int kOnDevice = 1;   // location type
constexpr int kReadWrite = 3;  // access flags
constexpr int kMinimumGranularity = 0;
constexpr unsigned kWithoutTime = 2;  // an event that is only waited for

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

AllocationProperties properties_on(int device) {
    AllocationProperties properties{};
    properties.type = kPinned;
    properties.location = {kOnDevice, device};
    return properties;
}

}  // namespace

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

    [[noreturn]] void refuse(const char* call, Status status) const {
        const char* name = nullptr;
        error_name(status, &name);
        const std::string text = std::string(call) + ": " +
                                 (name == nullptr ? "unknown error" : name) + " (" +
                                 std::to_string(status) + ")";
        if (status == kOutOfMemory) throw OutOfDeviceMemory(text);
        throw DeviceCallError(text);
    }
    void require(Status status, const char* call) const {
        if (status != kSuccess) refuse(call, status);
    }
};

namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
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
    cuda.require(cuda.init(0), "cuInit");
    return cuda;
}

// Opened once, and again where that failed.
const CudaFunctions& driver() {
    static const CudaFunctions cuda = open_driver();
    return cuda;
}

// The threads that allocate may have no context yet, or another device's.
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

void* as_handle(std::uint64_t value) { return reinterpret_cast<void*>(value); }

// See Note [Devices that reach each other].
std::mutex mapping;                 // guards what is mapped, on all devices
std::vector<CudaMemory*> memories;  // that there are

}  // namespace

PrimaryContext::PrimaryContext(const CudaFunctions& cuda, int device) : cuda_(cuda) {
    cuda_.require(cuda_.device_get(&device_, device), "cuDeviceGet");
    cuda_.require(cuda_.retain_context(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

PrimaryContext::~PrimaryContext() { cuda_.release_context(device_); }

CudaMemory::CudaMemory(int device) : cuda_(driver()), device_(device), context_(cuda_, device) {
    const AllocationProperties properties = properties_on(device_);
    cuda_.require(cuda_.granularity(&page_bytes_, &properties, kMinimumGranularity),
                  "cuMemGetAllocationGranularity");
    const std::lock_guard lock(mapping);
    for (CudaMemory* other : memories) {
        if (other->device_ == device_ || !other->is_reached_by(device_)) continue;
        for (const auto& [address, bytes] : other->mapped_) {
            other->open_to({device_}, address, bytes);
        }
    }
    memories.push_back(this);
}

CudaMemory::~CudaMemory() {
    const std::lock_guard lock(mapping);
    std::erase(memories, this);
}

std::size_t CudaMemory::free_bytes() {
    const InContext current(cuda_, context_.handle());
    std::size_t free = 0, total = 0;
    cuda_.require(cuda_.memory_info(&free, &total), "cuMemGetInfo");
    return free;
}

Address CudaMemory::reserve_range(std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    Address address = 0;
    cuda_.require(cuda_.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    return address;
}

void CudaMemory::release_range(Address address, std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.free_range(address, bytes), "cuMemAddressFree");
}

Pages CudaMemory::create_pages(std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    const AllocationProperties properties = properties_on(device_);
    Pages pages = 0;
    cuda_.require(cuda_.create(&pages, bytes, &properties, 0), "cuMemCreate");
    return pages;
}

void CudaMemory::release_pages(Pages pages) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.release(pages), "cuMemRelease");
}

void CudaMemory::map(Address address, Pages pages, std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    const std::lock_guard lock(mapping);
    const auto entry = mapped_.emplace(address, bytes).first;
    if (const Status status = cuda_.map(address, bytes, 0, pages, 0); status != kSuccess) {
        mapped_.erase(entry);
        cuda_.refuse("cuMemMap", status);
    }
    try {
        open_to(users(), address, bytes);
    } catch (...) {
        cuda_.unmap(address, bytes);
        mapped_.erase(entry);
        throw;
    }
}

void CudaMemory::unmap(Address address, std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    const std::lock_guard lock(mapping);
    cuda_.require(cuda_.unmap(address, bytes), "cuMemUnmap");
    mapped_.erase(address);
}

bool CudaMemory::is_reached_by(int device) const {
    int can = 0;
    cuda_.require(cuda_.can_reach(&can, device, device_), "cuDeviceCanAccessPeer");
    return can != 0;
}

std::vector<int> CudaMemory::users() const {
    std::vector<int> devices{device_};
    for (const CudaMemory* other : memories) {
        if (std::ranges::find(devices, other->device_) != devices.end()) continue;
        if (is_reached_by(other->device_)) devices.push_back(other->device_);
    }
    return devices;
}

void CudaMemory::open_to(const std::vector<int>& devices, Address address, std::size_t bytes) {
    std::vector<Access> access;
    for (const int device : devices) access.push_back({{kOnDevice, device}, kReadWrite});
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.set_access(address, bytes, access.data(), access.size()), "cuMemSetAccess");
}

Address CudaMemory::allocate_plain(std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    Address address = 0;
    cuda_.require(cuda_.allocate(&address, bytes), "cuMemAlloc");
    return address;
}

void CudaMemory::release_plain(Address address) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.free(address), "cuMemFree");
}

void CudaMemory::synchronize() {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.synchronize(), "cuCtxSynchronize");
}

Event CudaMemory::record_event(Stream stream) {
    const InContext current(cuda_, context_.handle());
    // An event is recorded where the stream is; where the driver does not tell, that is here.
    void* context = context_.handle();
    cuda_.stream_context(as_handle(stream), &context);
    const InContext of_stream(cuda_, context);
    void* event = nullptr;
    cuda_.require(cuda_.create_event(&event, kWithoutTime), "cuEventCreate");
    if (const Status status = cuda_.record_event(event, as_handle(stream)); status != kSuccess) {
        cuda_.destroy_event(event);
        cuda_.refuse("cuEventRecord", status);
    }
    return reinterpret_cast<Event>(event);
}

bool CudaMemory::is_done(Event event) {
    const InContext current(cuda_, context_.handle());
    const Status status = cuda_.query_event(as_handle(event));
    if (status == kNotReady) return false;
    cuda_.require(status, "cuEventQuery");
    return true;
}

void CudaMemory::await(Event event) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.synchronize_event(as_handle(event)), "cuEventSynchronize");
}

void CudaMemory::make_wait(Stream stream, Event event) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.wait_event(as_handle(stream), as_handle(event), 0), "cuStreamWaitEvent");
}

void CudaMemory::destroy_event(Event event) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.destroy_event(as_handle(event)), "cuEventDestroy");
}

}  // namespace gapless::runtime
