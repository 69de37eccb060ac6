// What an allocator asks of a device: address ranges, pages, events.
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
using Pages = std::uint64_t;   // a handle of physical memory
using Event = std::uint64_t;   // a handle

// The device refused a call.
class DeviceCallError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// What a stream is given now becomes a part of a graph, and is not done.
class StreamIsCaptured : public DeviceCallError {
  public:
    StreamIsCaptured() : DeviceCallError("a stream is being captured into a graph") {}
};

// The program destroyed a stream.
class StreamIsGone : public DeviceCallError {
  public:
    using DeviceCallError::DeviceCallError;
};

// There is not enough memory. PyTorch turns it into an error of the operator that asked.
class OutOfDeviceMemory : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Where memory was not as a stamp had left it.
struct Overwritten {
    std::uint64_t comparison;  // the number that it was given
    Address first;             // of the words that were not
    std::uint64_t words;
};

// One device, simulated or by CUDA. Physical memory and the addresses at which it appears are two
// things: pages are created, mapped into a reserved range, unmapped and released. Calls come from
// one thread at a time, but for synchronize() and await(), beside which others go on.
class DeviceMemory {
  public:
    DeviceMemory() = default;
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;
    virtual ~DeviceMemory() = default;

    // Physical memory comes in multiples of this many bytes.
    virtual std::size_t page_bytes() const = 0;

    // Physical memory that is not taken, by this process or another.
    virtual std::size_t free_bytes() = 0;

    // Physical memory that there is.
    virtual std::size_t total_bytes() = 0;

    // Takes an address range without memory behind it; throws OutOfDeviceMemory.
    virtual Address reserve_range(std::size_t bytes) = 0;
    virtual void release_range(Address address, std::size_t bytes) = 0;

    // Takes physical memory; throws OutOfDeviceMemory.
    virtual Pages create_pages(std::size_t bytes) = 0;
    virtual void release_pages(Pages pages) = 0;

    // Makes all of some pages appear at an address of a reserved range, where nobody may touch them
    // before set_access(). The same pages may appear at several addresses.
    virtual void map(Address address, Pages pages, std::size_t bytes) = 0;
    // Opens whole mappings that lie side by side.
    virtual void set_access(Address address, std::size_t bytes) = 0;
    // Makes whole mappings that lie side by side disappear. What is mapped must not be in use.
    virtual void unmap(Address address, std::size_t bytes) = 0;

    // Memory at an address of its own, as libraries that share memory between processes or register
    // it with a network ask for. Throws OutOfDeviceMemory. What is released must not be in use.
    virtual Address allocate_plain(std::size_t bytes) = 0;
    virtual void release_plain(Address address) = 0;

    // Returns when everything that was submitted to this device is done.
    virtual void synchronize() = 0;

    // Whether what is given to a stream becomes a part of a graph. Such a stream is neither marked
    // by an event nor made to wait for one.
    virtual bool is_captured(Stream stream) = 0;
    // An event is done when everything is that was submitted to the stream before it. This and
    // make_wait() throw StreamIsGone.
    virtual Event record_event(Stream stream) = 0;
    virtual bool is_done(Event event) = 0;
    // Returns when the event is done.
    virtual void await(Event event) = 0;
    // What is submitted to the stream from now on waits for the event; the host does not.
    virtual void make_wait(Stream stream, Event event) = 0;
    virtual void destroy_event(Event event) = 0;

    // What follows finds who writes to free memory. A device without it throws DeviceCallError.

    // A stream that nobody else knows.
    virtual Stream own_stream() { refuse_stamps(); }
    // Work for a stream: fills memory as free_word() says of addresses from `words` on; those of
    // free memory are its own. Whole words of 8 bytes.
    virtual void stamp(Address /*address*/, std::size_t /*bytes*/, Stream /*stream*/,
                       Address /*words*/) {
        refuse_stamps();
    }
    // Work for a stream: finds what is not as stamp() had left it, and stamps that again.
    virtual void compare(Address /*address*/, std::size_t /*bytes*/, Stream /*stream*/,
                         std::uint64_t /*number*/, Address /*words*/) {
        refuse_stamps();
    }
    // What was found so far, at most one a comparison and not more than some; all of it where the
    // comparisons are known to be done.
    virtual std::vector<Overwritten> overwritten() { refuse_stamps(); }

  private:
    [[noreturn]] static void refuse_stamps() {
        throw DeviceCallError("this device cannot look who writes to free memory");
    }
};

}  // namespace gapless::runtime
