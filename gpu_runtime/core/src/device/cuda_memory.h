// The memory of a CUDA device, through the driver: no toolkit is needed to build this.
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

// Keeps a device's primary context, the one that PyTorch uses.
class PrimaryContext {
  public:
    // Throws DeviceCallError where there is no such device.
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
// PyTorch copies from one GPU of a process to another straight where they reach each other, and
// asks no allocator. So memory is open to every device that the process uses, which it does from
// the moment that the device's memory is made: set_access() opens memory to those that are
// there, and what was opened before is opened to one that comes later. A device that the process
// does not use gets nothing: with one process a GPU each keeps to its own. Before pages disappear
// their device is waited for, and what other devices' streams were said to do with them; not the
// other devices as such, whose work may wait for this one's in its turn.
class CudaMemory final : public DeviceMemory {
  public:
    // Throws DeviceCallError where there is no driver or no such device.
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
    void synchronize() override;
    bool is_captured(Stream stream) override;
    Event record_event(Stream stream) override;
    bool is_done(Event event) override;
    void await(Event event) override;
    void make_wait(Stream stream, Event event) override;
    void destroy_event(Event event) override;

    // A stream that is there as long as this.
    Stream make_stream();

    // As its maker calls it.
    std::string name() const;
    // Compute capability, major and minor.
    std::pair<int, int> capability() const;
    // Takes the kernels that stamp and compare, as a compiler made them for this device; before
    // that there is neither. Once. Throws DeviceCallError, std::logic_error.
    void load_checks(const std::string& image);
    Stream own_stream() override;
    void stamp(Address address, std::size_t bytes, Stream stream, Address words) override;
    void compare(Address address, std::size_t bytes, Stream stream, std::uint64_t number,
                 Address words) override;
    std::vector<Overwritten> overwritten() override;

  private:
    // Free bytes and all.
    std::pair<std::size_t, std::size_t> memory_info() const;
    bool is_reached_by(int device) const;
    void forget_open(Address address, std::size_t bytes);
    // Lets devices read and write what is mapped at an address. Throws DeviceCallError.
    void open_to(const std::vector<int>& devices, Address address, std::size_t bytes);
    std::vector<int> users() const;
    const CudaChecks& loaded_checks() const;
    // A call about a stream and an event of ours.
    [[noreturn]] void refuse(Status status, const char* call) const;

    const CudaFunctions& cuda_;
    int device_;
    PrimaryContext context_;
    std::size_t page_bytes_ = 0;
    std::map<Address, std::size_t> open_;  // bytes by address
    std::unique_ptr<CudaChecks> checks_;   // null before they are loaded
    std::vector<void*> streams_;           // that were made here
};

}  // namespace gapless::runtime
