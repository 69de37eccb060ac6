// A range of addresses within an extent: in use, free, or without physical memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "allocator/extent.h"
#include "device/device_memory.h"
#include "device/sizes.h"
#include "device/stream_mark.h"

namespace gapless::runtime {

// The owner of memory that no stream has used yet.
constexpr Stream kNoStream = std::numeric_limits<Stream>::max();

// Note [Streams that are captured]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. While a stream is captured, everything that is submitted to it becomes part of a
// graph, events included. Such an event cannot be waited for outside of the graph, and a wait for
// an outside event ends the capture. While PyTorch captures, PyTorch itself serves the device's
// requests. But blocks that this allocator served earlier may be freed at that time, and their
// streams may be the captured ones.
// Approach. A captured stream is never marked and never made to wait. A block that is freed
// meanwhile is withheld. Its streams are marked after the capture, when memory is requested or
// given back. That mark is later than the free, hence safe. A range whose captured stream would
// need a mark is not given to another stream; the request is placed elsewhere. Frames do not move
// either, since the device cannot be waited for. Work that the stream got before the capture runs
// outside of the graph, so marks from before the capture stay valid.
// Limits. The heap does not see a capture that another thread begins between the check and the
// mark. Nor does it see a graph that uses a block after the block was freed; this is an error of
// the program under every allocator.

using StreamMarks = std::vector<std::shared_ptr<StreamMark>>;

enum class BlockState : std::uint8_t {
    used,
    withheld,  // freed, but other streams may still use it
    free,
    leaving,  // its frame is about to be unmapped, or to get another address
    retired,  // free; its frames go back to the device, unless a request needs them first
    vacated,  // its frame is used at another address; the old mapping is still there
    paused,   // free, and its memory went back to the device until a resume
    hole,     // no memory is mapped
    closed,   // a hole of a former arena, which serves no request any more
};

// The addresses of a block in the simulations of PyTorch's two allocators; 0 for none.
struct ShadowPlace {
    Address by_default = 0, expandable = 0;
};

struct Block {
    Address address = 0;
    std::size_t bytes = 0;
    Extent* extent = nullptr;
    Block* before = nullptr;  // neighbour in the extent; neighbours touch
    Block* behind = nullptr;
    BlockState state = BlockState::hole;
    bool is_handed_over = false;  // the plan gives its bytes to another stream next
    bool is_in_step = false;      // it was requested within a step
    Stream stream = kNoStream;    // the last user; the only one, apart from `marks`
    StreamMarks marks;            // of a free arena block: work to wait for as well
    std::vector<Stream> used_on;  // of a block in use: other streams
    std::size_t requested = 0;
    ShadowPlace in_shadow;
    std::int64_t record = -1;     // of the step that requested it; -1 before the first step
    std::int32_t request = -1;    // number of the request in that record
    std::int64_t generation = 0;  // of a vacated or retired block

    Address end() const { return address + bytes; }
};

}  // namespace gapless::runtime
