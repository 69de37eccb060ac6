#include "device/simulated_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>

#include "device/free_word.h"
#include "device/sizes.h"

namespace gapless::runtime {

namespace {

// Limits, in bytes, a simulated device to the address space of a process, and a page. The limit of
// a page is a guess.
constexpr std::size_t kAddressSpace = std::size_t{1} << 47;
constexpr std::size_t kLargestPage = std::size_t{1} << 40;
// The first address tried. A process has nothing there: it is above small fixed addresses, and far
// below those that the host chooses.
constexpr Address kFirstAddress = Address{1} << 44;
// If the host has another mapping at a wished address, the next wish lies this many bytes behind.
constexpr std::size_t kAroundOthers = std::size_t{1} << 40;
// From this address on, far below those that the host chooses, the host's choice is taken.
constexpr Address kLastWish = Address{1} << 46;

void* as_pointer(Address address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void refuse(const std::string& rule) { throw std::logic_error(rule); }

}  // namespace

SimulatedMemory::SimulatedMemory(std::size_t page_bytes, std::size_t capacity_bytes)
    : page_bytes_(page_bytes),
      capacity_bytes_(capacity_bytes),
      file_(-1),
      next_address_(kFirstAddress) {
    const auto host_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (page_bytes == 0 || page_bytes % host_page != 0 || page_bytes > kLargestPage) {
        throw std::invalid_argument(
            "field page_bytes: a simulated page is a multiple of the host's " +
            std::to_string(host_page) + " bytes, at most " + std::to_string(kLargestPage) +
            ", found " + std::to_string(page_bytes));
    }
    if (capacity_bytes > kAddressSpace) {
        throw std::invalid_argument("field capacity_bytes: at most " +
                                    std::to_string(kAddressSpace) + ", found " +
                                    std::to_string(capacity_bytes));
    }
    file_ = memfd_create("simulated device memory", MFD_CLOEXEC);
    if (file_ < 0) {
        throw DeviceCallError(std::string("memfd_create: ") + std::strerror(errno));
    }
}

SimulatedMemory::~SimulatedMemory() {
    for (const auto& [address, bytes] : ranges_) munmap(as_pointer(address), bytes);
    for (const auto& [address, bytes] : plain_) munmap(as_pointer(address), bytes);
    close(file_);
}

void SimulatedMemory::submit(Stream stream, Address address, std::size_t bytes) {
    constexpr Address kLast = std::numeric_limits<Address>::max();
    if (bytes > kLast - address) {
        throw std::invalid_argument("field bytes: work ends at an address, found " +
                                    std::to_string(bytes) + " bytes at " + std::to_string(address));
    }
    const std::lock_guard lock(mutex_);
    add_work(stream, address, bytes == 0 ? kLast : address + bytes);
}

void SimulatedMemory::add_work(Stream stream, Address begin, Address end) {
    StreamState& state = streams_[stream];
    state.work.push_back({++state.submitted, begin, end});
}

void SimulatedMemory::finish(Stream stream) {
    const std::lock_guard lock(mutex_);
    finish_all(stream);
}

void SimulatedMemory::advance(Stream stream) {
    const std::lock_guard lock(mutex_);
    StreamState& state = streams_[stream];
    for (;;) {
        if (state.waits.empty()) return finish_all(stream);
        const StreamWait wait = state.waits.front();
        finish_until({stream, wait.behind, wait.number - 1});
        if (!is_finished(wait.awaited)) return;
        state.waits.pop_front();
    }
}

// A stream passes a wait when its earlier work and the awaited event are done.
bool SimulatedMemory::is_finished(const EventState& end) {
    StreamState& stream = streams_[end.stream];
    while (!stream.waits.empty() && stream.waits.front().number <= end.waits &&
           stream.waits.front().behind <= stream.finished) {
        const StreamWait wait = stream.waits.front();
        if (!is_finished(wait.awaited)) return false;
        // The awaited stream may have waited for this one, which has then passed this wait.
        if (!stream.waits.empty() && stream.waits.front().number == wait.number) {
            stream.waits.pop_front();
        }
    }
    return stream.finished >= end.position &&
           (stream.waits.empty() || stream.waits.front().number > end.waits);
}

void SimulatedMemory::finish_all(Stream stream) {
    const StreamState& state = streams_[stream];
    finish_until({stream, state.submitted, state.waited});
}

// Also finishes the work of other streams that this stream waited for.
void SimulatedMemory::finish_until(const EventState& end) {
    StreamState& state = streams_[end.stream];
    state.finished = std::max(state.finished, end.position);
    while (!state.work.empty() && state.work.front().position <= state.finished) {
        state.work.pop_front();
    }
    while (!state.waits.empty() && (state.waits.front().behind < state.finished ||
                                    state.waits.front().number <= end.waits)) {
        const StreamWait done = state.waits.front();
        state.waits.pop_front();
        finish_until(done.awaited);
    }
}

void SimulatedMemory::require_idle(Address begin, Address end, Stream except) const {
    for (const auto& [stream, state] : streams_) {
        if (stream == except) continue;
        for (const Work& work : state.work) {
            if (work.begin < end && begin < work.end) {
                refuse("memory disappears or is copied while a stream is at work there");
            }
        }
    }
}

void SimulatedMemory::fail_after(std::uint64_t calls, std::uint64_t failures) {
    const std::lock_guard lock(mutex_);
    calls_to_failure_ = calls;
    failures_ = failures;
}

bool SimulatedMemory::fails() {
    ++calls_;
    if (failures_ == 0) return false;
    if (calls_to_failure_ > 0) {
        --calls_to_failure_;
        return false;
    }
    --failures_;
    return true;
}

void SimulatedMemory::may_fail(const char* call) {
    if (fails())
        throw DeviceCallError(std::string(call) + ": the simulated device was told to fail");
}

std::size_t SimulatedMemory::free_bytes() {
    const std::lock_guard lock(mutex_);
    may_fail("free_bytes");
    return capacity_bytes_ - created_bytes_;
}

// Note: addresses ascend, as on the ledger. An allocator takes the lowest address among blocks of
// one size, and the host's own choice would descend.
Address SimulatedMemory::take_addresses(std::size_t bytes, std::size_t spare, int protection) {
    Address wish = round_up(next_address_, std::max(page_bytes_, kMadeMultiple));
    for (;; wish += kAroundOthers) {
        void* const found = mmap(as_pointer(wish), bytes + spare, protection,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED) {
            throw OutOfDeviceMemory("no address range of " + std::to_string(bytes) + " bytes");
        }
        const Address address = reinterpret_cast<Address>(found);
        if (address == wish || wish >= kLastWish) {
            next_address_ = address + bytes;
            return address;
        }
        // The host has another mapping at the wish: the next wish lies behind it.
        munmap(found, bytes + spare);
    }
}

Address SimulatedMemory::reserve_range(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (fails()) throw OutOfDeviceMemory("no address range: the simulated device was told to fail");
    if (bytes > kAddressSpace) throw OutOfDeviceMemory("no address range: too many bytes");
    // One page more, so that the range contains a page-aligned one.
    const Address begin = take_addresses(bytes, page_bytes_, PROT_NONE);
    const Address address = round_up(begin, page_bytes_);
    if (address > begin) munmap(as_pointer(begin), address - begin);
    munmap(as_pointer(address + bytes), begin + page_bytes_ - address);
    ranges_[address] = bytes;
    return address;
}

void SimulatedMemory::release_range(Address address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    may_fail("release_range");
    const auto range = ranges_.find(address);
    if (range == ranges_.end() || range->second != bytes) refuse("no such range is reserved");
    const auto inside = mappings_.lower_bound(address);
    if (inside != mappings_.end() && inside->first < address + bytes) {
        refuse("a range is released while pages are mapped into it");
    }
    munmap(as_pointer(address), bytes);
    ranges_.erase(range);
}

Pages SimulatedMemory::create_pages(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes == 0 || bytes % page_bytes_ != 0) refuse("physical memory comes in whole pages");
    if (fails() || created_bytes_ + bytes > capacity_bytes_) {
        throw OutOfDeviceMemory("no physical memory of " + std::to_string(bytes) + " bytes");
    }
    if (ftruncate(file_, static_cast<off_t>(file_bytes_ + bytes)) != 0) {
        throw DeviceCallError(std::string("ftruncate: ") + std::strerror(errno));
    }
    const Pages pages = next_handle_++;
    pages_[pages] = {file_bytes_, bytes, 0};
    file_bytes_ += bytes;
    created_bytes_ += bytes;
    return pages;
}

void SimulatedMemory::release_pages(Pages pages) {
    const std::lock_guard lock(mutex_);
    may_fail("release_pages");
    const auto found = pages_.find(pages);
    if (found == pages_.end()) refuse("no such pages");
    if (found->second.mappings > 0) refuse("pages are released while they are mapped");
    // Returns the memory to the host. This part of the file is not reused.
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(found->second.file_offset),
              static_cast<off_t>(found->second.bytes));
    created_bytes_ -= found->second.bytes;
    pages_.erase(found);
}

void SimulatedMemory::map(Address address, Pages pages, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    may_fail("map");
    const auto found = pages_.find(pages);
    if (found == pages_.end() || found->second.bytes != bytes)
        refuse("pages are mapped as a whole");
    auto range = ranges_.upper_bound(address);
    if (range == ranges_.begin()) refuse("an address outside of every range is mapped");
    --range;
    if (address + bytes > range->first + range->second) {
        refuse("an address outside of every range is mapped");
    }
    auto next = mappings_.lower_bound(address);
    if (next != mappings_.end() && next->first < address + bytes) refuse("mapped twice");
    if (next != mappings_.begin() &&
        std::prev(next)->first + std::prev(next)->second.bytes > address) {
        refuse("mapped twice");
    }
    if (mmap(as_pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_,
             static_cast<off_t>(found->second.file_offset)) == MAP_FAILED) {
        throw DeviceCallError(std::string("mmap: ") + std::strerror(errno));
    }
    ++found->second.mappings;
    mappings_[address] = {pages, bytes};
    mapped_bytes_ += bytes;
}

void SimulatedMemory::require_mapped(Address address, std::size_t bytes) const {
    auto mapping = mappings_.find(address);
    for (std::size_t done = 0; done < bytes; ++mapping) {
        if (mapping == mappings_.end() || mapping->first != address + done ||
            done + mapping->second.bytes > bytes) {
            refuse("a range is opened or unmapped that was not mapped so");
        }
        done += mapping->second.bytes;
    }
}

void SimulatedMemory::set_access(Address address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    may_fail("set_access");
    require_mapped(address, bytes);
    if (mprotect(as_pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) {
        throw DeviceCallError(std::string("mprotect: ") + std::strerror(errno));
    }
}

void SimulatedMemory::unmap(Address address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    may_fail("unmap");
    require_idle(address, address + bytes);
    require_mapped(address, bytes);
    auto mapping = mappings_.find(address);
    while (mapping != mappings_.end() && mapping->first < address + bytes) {
        mapped_bytes_ -= mapping->second.bytes;
        --pages_.at(mapping->second.pages).mappings;
        mapping = mappings_.erase(mapping);
    }
    if (mmap(as_pointer(address), bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        throw DeviceCallError(std::string("mmap: ") + std::strerror(errno));
    }
}

Address SimulatedMemory::allocate_plain(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (fails() || bytes > capacity_bytes_ - created_bytes_) {
        throw OutOfDeviceMemory("no physical memory of " + std::to_string(bytes) + " bytes");
    }
    const Address address = take_addresses(bytes, 0, PROT_READ | PROT_WRITE);
    plain_[address] = bytes;
    created_bytes_ += bytes;
    return address;
}

void SimulatedMemory::release_plain(Address address) {
    const std::lock_guard lock(mutex_);
    may_fail("release_plain");
    const auto found = plain_.find(address);
    if (found == plain_.end()) refuse("no such plain memory");
    require_idle(address, address + found->second);
    munmap(as_pointer(address), found->second);
    created_bytes_ -= found->second;
    plain_.erase(found);
}

Address SimulatedMemory::allocate_host(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<std::byte[]> memory;
    if (!fails()) memory.reset(new (std::nothrow) std::byte[bytes]);
    if (memory == nullptr) {
        throw OutOfHostMemory("no host memory of " + std::to_string(bytes) + " bytes");
    }
    const Address host = reinterpret_cast<Address>(memory.get());
    host_[host] = std::move(memory);
    return host;
}

void SimulatedMemory::release_host(Address host) {
    const std::lock_guard lock(mutex_);
    may_fail("release_host");
    require_idle(host, host + 1);
    if (host_.erase(host) == 0) refuse("no such host memory");
}

void SimulatedMemory::copy(Address target, Address source, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    may_fail("copy");
    for (const Address used : {target, source}) {
        require_idle(used, used + bytes, kCopyStream);
        add_work(kCopyStream, used, used + bytes);
    }
    std::memcpy(as_pointer(target), as_pointer(source), bytes);
}

void SimulatedMemory::await_copies() {
    const std::lock_guard lock(mutex_);
    may_fail("await_copies");
    finish_all(kCopyStream);
}

void SimulatedMemory::synchronize() {
    const std::lock_guard lock(mutex_);
    may_fail("synchronize");
    for (const auto& [stream, state] : streams_) finish_all(stream);
}

void SimulatedMemory::destroy_stream(Stream stream) {
    const std::lock_guard lock(mutex_);
    gone_.insert(stream);
}

bool SimulatedMemory::is_captured(Stream stream) {
    const std::lock_guard lock(mutex_);
    may_fail("is_captured");
    return captured_.contains(stream);
}

// During a capture, a driver would accept both calls; they would become part of the graph or end
// its capture.
void SimulatedMemory::require_running(Stream stream) {
    if (gone_.contains(stream)) throw StreamIsGone("the simulated device has no such stream");
    if (!captured_.contains(stream)) return;
    ++captured_work_;
    refuse("an event and a stream that is captured do not meet");
}

Event SimulatedMemory::record_event(Stream stream) {
    const std::lock_guard lock(mutex_);
    may_fail("record_event");
    require_running(stream);
    const Event event = next_handle_++;
    StreamState& state = streams_[stream];
    state.submitted += are_events_work_;
    events_[event] = {stream, state.submitted, state.waited};
    return event;
}

bool SimulatedMemory::is_done(Event event) {
    const std::lock_guard lock(mutex_);
    may_fail("is_done");
    return is_finished(events_.at(event));
}

void SimulatedMemory::await(Event event) {
    const std::lock_guard lock(mutex_);
    may_fail("await");
    const EventState& state = events_.at(event);
    finish_until(state);
}

void SimulatedMemory::make_wait(Stream stream, Event event) {
    const std::lock_guard lock(mutex_);
    may_fail("make_wait");
    require_running(stream);
    const EventState& state = events_.at(event);
    waits_.push_back({stream, state.stream, state.position});
    StreamState& waiting = streams_[stream];
    waiting.waits.push_back({waiting.submitted, ++waiting.waited, state});
}

void SimulatedMemory::destroy_event(Event event) {
    const std::lock_guard lock(mutex_);
    may_fail("destroy_event");
    if (events_.erase(event) == 0) refuse("no such event");
}

void SimulatedMemory::set_captured(Stream stream, bool is_captured) {
    const std::lock_guard lock(mutex_);
    if (is_captured) {
        captured_.insert(stream);
    } else {
        captured_.erase(stream);
    }
}

void SimulatedMemory::stamp(Address address, std::size_t bytes, Stream stream, Address words) {
    const std::lock_guard lock(mutex_);
    may_fail("stamp");
    if (captured_.contains(stream)) {
        ++captured_work_;
        return;
    }
    add_work(stream, address, address + bytes);
    for (Address at = address; at < address + bytes; at += kWordBytes) {
        *static_cast<std::uint64_t*>(as_pointer(at)) = free_word(words + (at - address));
    }
}

void SimulatedMemory::compare(Address address, std::size_t bytes, Stream stream,
                              std::uint64_t number, Address words) {
    const std::lock_guard lock(mutex_);
    may_fail("compare");
    if (captured_.contains(stream)) {
        ++captured_work_;
        return;
    }
    add_work(stream, address, address + bytes);
    Overwritten found{.comparison = number, .first = 0, .words = 0};
    for (Address at = address; at < address + bytes; at += kWordBytes) {
        std::uint64_t& word = *static_cast<std::uint64_t*>(as_pointer(at));
        const std::uint64_t expected = free_word(words + (at - address));
        if (word == expected) continue;
        if (found.words++ == 0) found.first = at;
        word = expected;
    }
    if (found.words > 0) overwritten_.push_back(found);
}

}  // namespace gapless::runtime
