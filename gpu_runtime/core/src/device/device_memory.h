// The interface through which an allocator uses a device: address ranges, pages, events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace gapless::runtime {

using Address = std::uint64_t;
using Stream = std::uint64_t;  // a handle; 0 is the default stream
using Pages = std::uint64_t;   // handle of physical memory
using Event = std::uint64_t;   // a handle

// The device refused a call.
class DeviceCallError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A call about a stream that is being captured: submitted work would become part of a graph.
class StreamIsCaptured : public DeviceCallError {
  public:
    StreamIsCaptured() : DeviceCallError("a stream is being captured into a graph") {}
};

// The program destroyed a stream.
class StreamIsGone : public DeviceCallError {
  public:
    using DeviceCallError::DeviceCallError;
};

// There is not enough memory. PyTorch turns this into an error of the operator that requested it.
class OutOfDeviceMemory : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The host has not enough memory for a copy of device memory.
class OutOfHostMemory : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// A place where memory differed from its stamp.
struct Overwritten {
    std::uint64_t comparison;  // number of the comparison that found it
    Address first;             // address of the first differing word
    std::uint64_t words;
};

// One device, simulated or CUDA. Physical memory and the addresses at which it appears are two
// things: pages are created, mapped into a reserved range, unmapped and released. Only one thread
// at a time calls, except for synchronize() and await(), during which other threads may call.
class DeviceMemory {
  public:
    DeviceMemory() = default;
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    virtual ~DeviceMemory() = default;

    // Physical memory is allocated in multiples of this many bytes.
    virtual std::size_t page_bytes() const = 0;

    // Bytes of physical memory that neither this process nor another has taken.
    virtual std::size_t free_bytes() = 0;

    // Bytes of physical memory in total.
    virtual std::size_t total_bytes() = 0;

    // Reserves an address range without memory; throws OutOfDeviceMemory.
    virtual Address reserve_range(std::size_t bytes) = 0;
    virtual void release_range(Address address, std::size_t bytes) = 0;

    // Allocates physical memory; throws OutOfDeviceMemory.
    virtual Pages create_pages(std::size_t bytes) = 0;
    virtual void release_pages(Pages pages) = 0;

    // Maps all bytes of some pages at an address of a reserved range. They must not be accessed
    // before set_access(). The same pages may be mapped at several addresses.
    virtual void map(Address address, Pages pages, std::size_t bytes) = 0;
    // Makes whole, adjacent mappings accessible.
    virtual void set_access(Address address, std::size_t bytes) = 0;
    // Unmaps whole, adjacent mappings. They must not be in use.
    virtual void unmap(Address address, std::size_t bytes) = 0;
    // Say that free bytes will be used through another mapping of their pages, and that they are
    // used at these addresses from now on. A device need not know; checks of free memory do.
    virtual void hide(Address /*address*/, std::size_t /*bytes*/) {}
    virtual void show(Address /*address*/, std::size_t /*bytes*/) {}

    // Allocates memory at an address of its own, which libraries need to share it between processes
    // or to register it with a network. Throws OutOfDeviceMemory. Released memory must not be in
    // use.
    virtual Address allocate_plain(std::size_t bytes) = 0;
    virtual void release_plain(Address address) = 0;

    // Allocates memory of the host that the device copies from and to. Throws OutOfHostMemory.
    virtual Address allocate_host(std::size_t bytes) = 0;
    virtual void release_host(Address host) = 0;
    // Submits a copy between the device and host memory to a stream that no other code knows.
    // Nothing else may use the bytes until await_copies() has returned.
    virtual void copy(Address target, Address source, std::size_t bytes) = 0;
    virtual void await_copies() = 0;

    // Waits until all work that was submitted to this device is done.
    virtual void synchronize() = 0;

    // Returns true if work submitted to a stream becomes part of a graph. Such a stream must
    // neither be marked by an event nor made to wait for one.
    virtual bool is_captured(Stream stream) = 0;
    // A number of the stream that no other stream ever has; a handle may name a new stream once the
    // old one was destroyed. A device that does not know it gives a new number each time.
    virtual std::uint64_t number_of(Stream stream) { return stream; }
    // Records an event, which is done when all work submitted to the stream before it is done. This
    // and make_wait() throw StreamIsGone.
    virtual Event record_event(Stream stream) = 0;
    virtual bool is_done(Event event) = 0;
    // Waits until the event is done.
    virtual void await(Event event) = 0;
    // Makes all work that is submitted to the stream from now on wait for the event. The host does
    // not wait.
    virtual void make_wait(Stream stream, Event event) = 0;
    virtual void destroy_event(Event event) = 0;

    // The functions below find writes to free memory. A device that lacks them throws
    // DeviceCallError.

    // A stream that no other code knows.
    virtual Stream own_stream() { refuse_stamps(); }
    // Submits work that fills memory with free_word() of addresses from `words` on. For free
    // memory, `words` is its own address. Address and size are multiples of 8 bytes.
    virtual void stamp(Address /*address*/, std::size_t /*bytes*/, Stream /*stream*/,
                       Address /*words*/) {
        refuse_stamps();
    }
    // Submits work that reports words that differ from their stamp, and stamps them again.
    virtual void compare(Address /*address*/, std::size_t /*bytes*/, Stream /*stream*/,
                         std::uint64_t /*number*/, Address /*words*/) {
        refuse_stamps();
    }
    // The findings so far, at most one for each comparison, and not more than a device-specific
    // number. The list is complete if all comparisons are known to be done.
    virtual std::vector<Overwritten> overwritten() { refuse_stamps(); }

  private:
    [[noreturn]] static void refuse_stamps() {
        throw DeviceCallError("this device cannot look who writes to free memory");
    }
};

}  // namespace gapless::runtime
