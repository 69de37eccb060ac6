#include "device/cuda_memory.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>

namespace gapless::runtime {

namespace {

AllocationProperties properties_on(int device) {
    AllocationProperties properties{};
    properties.type = kPinned;
    properties.location = {kOnDevice, device};
    return properties;
}

// Returns true if the status means a destroyed stream; older drivers use the second status.
bool is_gone(Status of_stream) {
    return of_stream == kInvalidHandle || of_stream == kContextIsGone;
}

// See Note [Devices that reach each other].
std::mutex mapping;                 // guards the mappings of all devices
std::vector<CudaMemory*> memories;  // all living objects

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
        for (const auto& [address, bytes] : other->open_) {
            other->open_to({device_}, address, bytes);
        }
    }
    memories.push_back(this);
}

CudaMemory::~CudaMemory() {
    {
        const std::lock_guard lock(mapping);
        std::erase(memories, this);
    }
    if (streams_.empty()) return;
    try {
        const InContext current(cuda_, context_.handle());
        for (void* stream : streams_) cuda_.destroy_stream(stream);
    } catch (const DeviceCallError&) {
        // The context was destroyed, and its streams with it.
    }
}

std::size_t CudaMemory::free_bytes() { return memory_info().first; }

std::size_t CudaMemory::total_bytes() { return memory_info().second; }

std::pair<std::size_t, std::size_t> CudaMemory::memory_info() const {
    const InContext current(cuda_, context_.handle());
    std::size_t free = 0, total = 0;
    cuda_.require(cuda_.memory_info(&free, &total), "cuMemGetInfo");
    return {free, total};
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
    cuda_.require(cuda_.map(address, bytes, 0, pages, 0), "cuMemMap");
}

void CudaMemory::set_access(Address address, std::size_t bytes) {
    const std::lock_guard lock(mapping);
    open_to(users(), address, bytes);
    forget_open(address, bytes);
    open_.emplace(address, bytes);
}

void CudaMemory::unmap(Address address, std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    const std::lock_guard lock(mapping);
    cuda_.require(cuda_.unmap(address, bytes), "cuMemUnmap");
    forget_open(address, bytes);
}

// Removes a range from the accessible mappings. It may be a part of what was made accessible at
// once.
void CudaMemory::forget_open(Address address, std::size_t bytes) {
    const Address end = address + bytes;
    auto entry = open_.upper_bound(address);
    if (entry != open_.begin()) --entry;
    while (entry != open_.end() && entry->first < end) {
        const auto [begin, behind] = std::pair(entry->first, entry->first + entry->second);
        ++entry;
        if (behind <= address) continue;
        open_.erase(begin);
        if (begin < address) open_.emplace(begin, address - begin);
        if (behind > end) open_.emplace(end, behind - end);
    }
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

// The memory is pinned, so that copies run beside the host.
Address CudaMemory::allocate_host(std::size_t bytes) {
    const InContext current(cuda_, context_.handle());
    void* host = nullptr;
    try {
        cuda_.require(cuda_.allocate_host(&host, bytes, 0), "cuMemHostAlloc");
    } catch (const OutOfDeviceMemory& error) {
        throw OutOfHostMemory("no pinned host memory of " + std::to_string(bytes) +
                              " bytes: " + error.what());
    }
    return reinterpret_cast<Address>(host);
}

void CudaMemory::release_host(Address host) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.free_host(as_handle(host)), "cuMemFreeHost");
}

void CudaMemory::copy(Address target, Address source, std::size_t bytes) {
    if (copies_ == 0) copies_ = make_stream();
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.copy(target, source, bytes, as_handle(copies_)), "cuMemcpyAsync");
}

void CudaMemory::await_copies() {
    if (copies_ == 0) return;
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.synchronize_stream(as_handle(copies_)), "cuStreamSynchronize");
}

void CudaMemory::synchronize() {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.synchronize(), "cuCtxSynchronize");
}

void CudaMemory::refuse(Status status, const char* call) const {
    if (is_gone(status)) throw StreamIsGone(std::string(call) + ": the stream was destroyed");
    cuda_.refuse(call, status);
}

bool CudaMemory::is_captured(Stream stream) {
    const InContext current(cuda_, context_.handle());
    int is_captured = 0;
    const Status status = cuda_.capture_status(as_handle(stream), &is_captured);
    // The default stream would have to wait for another stream that is captured.
    if (status == kCapturedElsewhere) return true;
    if (is_gone(status)) return false;
    cuda_.require(status, "cuStreamIsCapturing");
    return is_captured != 0;
}

std::uint64_t CudaMemory::number_of(Stream stream) {
    const InContext current(cuda_, context_.handle());
    std::uint64_t number = 0;
    const bool is_told = cuda_.stream_number != nullptr &&
                         cuda_.stream_number(as_handle(stream), &number) == kSuccess;
    return is_told ? number : kUntold + ++untold_;
}

Event CudaMemory::record_event(Stream stream) {
    const InContext current(cuda_, context_.handle());
    // An event must be recorded in the stream's context. If the driver does not tell that context,
    // it is this device's.
    void* context = context_.handle();
    cuda_.stream_context(as_handle(stream), &context);
    const InContext of_stream(cuda_, context);
    void* event = nullptr;
    cuda_.require(cuda_.create_event(&event, kWithoutTime), "cuEventCreate");
    if (const Status status = cuda_.record_event(event, as_handle(stream)); status != kSuccess) {
        cuda_.destroy_event(event);
        refuse(status, "cuEventRecord");
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
    const Status status = cuda_.wait_event(as_handle(stream), as_handle(event), 0);
    if (status != kSuccess) refuse(status, "cuStreamWaitEvent");
}

void CudaMemory::destroy_event(Event event) {
    const InContext current(cuda_, context_.handle());
    cuda_.require(cuda_.destroy_event(as_handle(event)), "cuEventDestroy");
}

Stream CudaMemory::make_stream() {
    const InContext current(cuda_, context_.handle());
    void* stream = nullptr;
    cuda_.require(cuda_.create_stream(&stream, kNonBlocking), "cuStreamCreate");
    streams_.push_back(stream);
    return reinterpret_cast<Stream>(stream);
}

std::string CudaMemory::name() const {
    char name[128] = {};
    cuda_.require(cuda_.device_name(name, sizeof(name), device_), "cuDeviceGetName");
    return name;
}

std::pair<int, int> CudaMemory::capability() const {
    const auto attribute = [&](int which) {
        int value = 0;
        cuda_.require(cuda_.attribute(&value, which, device_), "cuDeviceGetAttribute");
        return value;
    };
    return {attribute(kCapabilityMajor), attribute(kCapabilityMinor)};
}

void CudaMemory::load_checks(const std::string& image) {
    if (checks_ != nullptr) throw std::logic_error("the checks of a device are loaded once");
    checks_ = std::make_unique<CudaChecks>(cuda_, context_.handle(), image);
}

const CudaChecks& CudaMemory::loaded_checks() const {
    if (checks_ == nullptr) throw DeviceCallError("no checks are loaded; call load_checks() first");
    return *checks_;
}

Stream CudaMemory::own_stream() { return loaded_checks().stream(); }

void CudaMemory::stamp(Address address, std::size_t bytes, Stream stream, Address words) {
    loaded_checks().stamp(address, bytes, stream, words);
}

void CudaMemory::compare(Address address, std::size_t bytes, Stream stream, std::uint64_t number,
                         Address words) {
    loaded_checks().compare(address, bytes, stream, number, words);
}

std::vector<Overwritten> CudaMemory::overwritten() { return loaded_checks().overwritten(); }

}  // namespace gapless::runtime
