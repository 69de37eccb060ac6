// A range of reserved addresses, and the physical memory that is mapped in it.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "device/device_memory.h"
#include "device/page_mapper.h"

namespace gapless::runtime {

// Physical memory that is mapped and unmapped as a whole.
struct Frame {
    Pages pages = 0;
    std::size_t bytes = 0;
};

// The addresses are kept until the process ends, because blocks may outlive the driver.
class Extent {
  public:
    // Reserves addresses without memory. Throws OutOfDeviceMemory.
    static Extent paged(DeviceMemory& memory, std::size_t bytes) {
        return {memory, memory.reserve_range(bytes), bytes, false};
    }
    // Makes one plain allocation, whose memory cannot be unmapped in parts. Throws
    // OutOfDeviceMemory.
    static Extent plain(DeviceMemory& memory, std::size_t bytes) {
        return {memory, memory.allocate_plain(bytes), bytes, true};
    }

    Address begin() const { return begin_; }
    Address end() const { return begin_ + bytes_; }
    std::size_t bytes() const { return bytes_; }
    bool is_plain() const { return is_plain_; }

    // Maps frames of one size side by side, from `address` on, and makes them accessible by one
    // call. Throws DeviceCallError; the frames are then unmapped once settle() has returned.
    void map(Address address, std::span<const Frame> frames) {
        std::vector<Pages> pages;
        std::map<Address, Frame> row;  // made first, so that no exception loses a frame
        Address end = address;
        for (const Frame& frame : frames) {
            pages.push_back(frame.pages);
            row.emplace_hint(row.end(), end, frame);
            end += frame.bytes;
        }
        mapper_.map(address, pages, frames.front().bytes);
        frames_.merge(row);
    }
    // Unmaps the frames that could not be made accessible. Throws DeviceCallError.
    void settle() { mapper_.settle(); }
    // Unmaps, by one call, the frames that fill [first, behind). Throws DeviceCallError; then all
    // of them stay mapped.
    std::vector<Frame> unmap(Address first, Address behind) {
        const auto from = frames_.find(first), to = frames_.lower_bound(behind);
        std::vector<Frame> taken;
        for (auto frame = from; frame != to; ++frame) taken.push_back(frame->second);
        memory_.unmap(first, behind - first);
        frames_.erase(from, to);
        return taken;
    }
    // Address and size of the frames that lie entirely in [first, behind), by address.
    std::vector<std::pair<Address, std::size_t>> frames_within(Address first,
                                                               Address behind) const {
        std::vector<std::pair<Address, std::size_t>> found;
        for (auto frame = frames_.lower_bound(first);
             frame != frames_.end() && frame->first + frame->second.bytes <= behind; ++frame) {
            found.emplace_back(frame->first, frame->second.bytes);
        }
        return found;
    }
    // Returns the begin and end of the first frames that lie entirely in [first, behind), as many
    // as have `bytes` bytes. The caller knows that the range is mapped throughout.
    std::pair<Address, Address> whole_frames(Address first, Address behind,
                                             std::size_t bytes) const {
        auto frame = frames_.lower_bound(first);
        if (frame == frames_.end()) return {behind, behind};
        const Address begin = frame->first;
        Address end = begin;
        for (; frame != frames_.end() && end - begin < bytes; ++frame) {
            if (frame->first + frame->second.bytes > behind) break;
            end = frame->first + frame->second.bytes;
        }
        return {begin, end};
    }
    const std::map<Address, Frame>& frames() const { return frames_; }

  private:
    Extent(DeviceMemory& memory, Address begin, std::size_t bytes, bool is_plain)
        : memory_(memory), mapper_(memory), begin_(begin), bytes_(bytes), is_plain_(is_plain) {}

    DeviceMemory& memory_;
    PageMapper mapper_;
    Address begin_;
    std::size_t bytes_;
    bool is_plain_;
    std::map<Address, Frame> frames_;
};

}  // namespace gapless::runtime
