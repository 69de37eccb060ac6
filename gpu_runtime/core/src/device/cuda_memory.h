// The memory of a CUDA device, through the driver; the build needs no CUDA toolkit.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda_checks.h"
#include "device/cuda_functions.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Retains a device's primary context, which is the one that PyTorch uses.
class PrimaryContext {
  public:
    // Throws DeviceCallError if there is no such device.
    PrimaryContext(const CudaFunctions& cuda, int device);
    ~PrimaryContext();
    PrimaryContext(const PrimaryContext&) = delete;
    PrimaryContext& operator=(const PrimaryContext&) = delete;

    void* handle() const { return handle_; }

  private:
    const CudaFunctions& cuda_;
    int device_ = 0;
    void* handle_ = nullptr;
};

// Note [Devices that reach each other]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// PyTorch copies directly between two GPUs of a process that can reach each other, and asks no
// allocator. So memory must be accessible from every device that the process uses. A device counts
// as used from the moment that its CudaMemory exists: set_access() makes memory accessible to all
// used devices, and a new CudaMemory gets access to all earlier mappings. A device that the process
// does not use gets no access, so with one process for each GPU, each keeps to its own. Before
// pages are unmapped, the host waits for their device and for what other devices' streams were
// recorded to do with them. It does not wait for the other devices as such, whose work may wait for
// this device in turn.
class CudaMemory final : public DeviceMemory {
  public:
    // Throws DeviceCallError if there is no driver or no such device.
    explicit CudaMemory(int device);
    ~CudaMemory() override;

    std::size_t page_bytes() const override { return page_bytes_; }
    std::size_t free_bytes() override;
    std::size_t total_bytes() override;
    Address reserve_range(std::size_t bytes) override;
    void release_range(Address address, std::size_t bytes) override;
    Pages create_pages(std::size_t bytes) override;
    void release_pages(Pages pages) override;
    void map(Address address, Pages pages, std::size_t bytes) override;
    void set_access(Address address, std::size_t bytes) override;
    void unmap(Address address, std::size_t bytes) override;
    Address allocate_plain(std::size_t bytes) override;
    void release_plain(Address address) override;
    Address allocate_host(std::size_t bytes) override;
    void release_host(Address host) override;
    void copy(Address target, Address source, std::size_t bytes) override;
    void await_copies() override;
    void synchronize() override;
    bool is_captured(Stream stream) override;
    std::uint64_t number_of(Stream stream) override;
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void await(Event event) override;
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;

    // Makes a stream that lives as long as this object.
    Stream make_stream();

    // The device's name, as its vendor gives it.
    std::string name() const;
    // Compute capability, major and minor.
    std::pair<int, int> capability() const;
    // Loads the kernels that stamp and compare, compiled for this device. Before this call, stamp()
    // and compare() throw. May be called once. Throws DeviceCallError, std::logic_error.
    void load_checks(const std::string& image);
    Stream own_stream() override;
    void stamp(Address address, std::size_t bytes, Stream stream, Address words) override;
    void compare(Address address, std::size_t bytes, Stream stream, std::uint64_t number,
                 Address words) override;
    std::vector<Overwritten> overwritten() override;

  private:
    // The driver numbers streams from 1 on.
    static constexpr std::uint64_t kUntold = std::uint64_t{1} << 63;

    // Free bytes and total bytes.
    std::pair<std::size_t, std::size_t> memory_info() const;
    bool is_reached_by(int device) const;
    void forget_open(Address address, std::size_t bytes);
    // Lets devices read and write the mappings at an address. Throws DeviceCallError.
    void open_to(const std::vector<int>& devices, Address address, std::size_t bytes);
    std::vector<int> users() const;
    const CudaChecks& loaded_checks() const;
    // Throws the error of a refused call about a stream and an event.
    [[noreturn]] void refuse(Status status, const char* call) const;

    const CudaFunctions& cuda_;
    int device_;
    PrimaryContext context_;
    std::size_t page_bytes_ = 0;
    std::map<Address, std::size_t> open_;  // accessible bytes by address
    std::unique_ptr<CudaChecks> checks_;   // null until loaded
    std::vector<void*> streams_;           // made by make_stream()
    Stream copies_ = 0;                    // the stream of copies; 0 before the first
    std::uint64_t untold_ = 0;             // numbers that the driver did not tell
};

}  // namespace gapless::runtime
