// A range of reserved addresses, and the physical memory that is mapped in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "device/device_memory.h"
#include "device/page_mapper.h"
#include "device/sizes.h"

namespace gapless::runtime {

// A frame is physical memory of one page, which is mapped and unmapped as a whole.
constexpr Pages kNoFrame = ~Pages{0};

// The addresses are kept until the process ends, because blocks may outlive the driver.
class Extent {
  public:
    // Reserves addresses without memory. Throws OutOfDeviceMemory.
    static Extent paged(DeviceMemory& memory, std::size_t bytes, bool is_whole = false) {
        return {memory, memory.reserve_range(bytes), bytes, false, is_whole};
    }
    // Makes one plain allocation, whose memory cannot be unmapped in parts. Throws
    // OutOfDeviceMemory.
    static Extent plain(DeviceMemory& memory, std::size_t bytes) {
        return {memory, memory.allocate_plain(bytes), bytes, true, false};
    }

    Address begin() const { return begin_; }
    Address end() const { return begin_ + bytes_; }
    std::size_t bytes() const { return bytes_; }
    bool is_plain() const { return is_plain_; }
    // Its memory is made for requests of whole pages.
    bool is_whole() const { return is_whole_; }
    // Addresses of a closed extent get no new memory.
    bool is_closed() const { return is_closed_; }
    void close() { is_closed_ = true; }

    // Maps frames side by side, from `address` on, and makes them accessible by one call. Throws
    // DeviceCallError; the frames are then unmapped once settle() has returned.
    void map(Address address, std::span<const Pages> frames) {
        const std::size_t first = number_of(address);
        // Made first, so that no exception loses a frame.
        if (frames_.size() < first + frames.size()) frames_.resize(first + frames.size(), kNoFrame);
        mapper_.map(address, frames, page_bytes_);
        std::ranges::copy(frames, frames_.begin() + static_cast<std::ptrdiff_t>(first));
    }
    // Unmaps the frames that could not be made accessible. Throws DeviceCallError.
    void settle() { mapper_.settle(); }
    // Unmaps, by one call, the frames that fill [first, behind). Throws DeviceCallError; then all
    // of them stay mapped.
    std::vector<Pages> unmap(Address first, Address behind) {
        memory_.unmap(first, behind - first);
        std::vector<Pages> taken;
        for (Address at = first; at < behind; at += page_bytes_) {
            taken.push_back(std::exchange(frames_[number_of(at)], kNoFrame));
        }
        return taken;
    }
    // Returns the frame that is mapped at an address, or kNoFrame.
    Pages frame_at(Address address) const {
        const std::size_t number = number_of(address);
        return number < frames_.size() ? frames_[number] : kNoFrame;
    }
    // No frame is mapped from this address on.
    Address mapped_end() const { return begin_ + frames_.size() * page_bytes_; }
    // Returns the begin and end of the first frames that lie entirely in [first, behind), as many
    // as have `bytes` bytes. The caller knows that the range is mapped throughout.
    std::pair<Address, Address> whole_frames(Address first, Address behind,
                                             std::size_t bytes) const {
        const Address begin = begin_ + round_up(first - begin_, page_bytes_);
        const Address end = begin_ + (behind - begin_) / page_bytes_ * page_bytes_;
        if (end <= begin) return {begin, begin};
        return {begin, std::min(end, begin + round_up(bytes, page_bytes_))};
    }

  private:
    Extent(DeviceMemory& memory, Address begin, std::size_t bytes, bool is_plain, bool is_whole)
        : memory_(memory),
          mapper_(memory),
          page_bytes_(memory.page_bytes()),
          begin_(begin),
          bytes_(bytes),
          is_plain_(is_plain),
          is_whole_(is_whole) {}

    std::size_t number_of(Address address) const { return (address - begin_) / page_bytes_; }

    DeviceMemory& memory_;
    PageMapper mapper_;
    std::size_t page_bytes_;
    Address begin_;
    std::size_t bytes_;
    bool is_plain_;
    bool is_whole_;
    bool is_closed_ = false;
    std::vector<Pages> frames_;  // by number of the page, up to the last that was ever mapped
};

}  // namespace gapless::runtime
