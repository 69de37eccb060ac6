// A stretch of addresses within an extent: in use, free, or without memory behind it.
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

// Of memory that no stream has used yet.
constexpr Stream kNoStream = std::numeric_limits<Stream>::max();

// Note [Streams that are captured]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Rationale. What a stream is given while it is captured becomes a part of a graph, events too.
// Such an event cannot be waited for outside of the graph, and a wait for one from outside ends the
// capture. While PyTorch captures, the requests of the device are not ours, but blocks that we
// served before are freed at that time, and their streams may be the captured ones.
// Approach. No stream is marked or made to wait while it is captured: who would need it, does
// without. A block that is freed is withheld; when memory is asked for, or given back, after the
// capture, its streams are marked, which is later than the free and hence safe. A range whose
// stream would have to be marked is not handed to another stream: the request lies elsewhere.
// Nor do frames move, since the device cannot be waited for. What the stream was given before the
// capture is done outside of the graph, so that marks from before it are good.
// Limits. A capture that begins in another thread between the question and the mark is not seen.
// Nor is what a graph does to a block that was freed when the graph runs, which is the program's
// fault under any allocator.

using StreamMarks = std::vector<std::shared_ptr<StreamMark>>;

enum class BlockState : std::uint8_t {
    used,
    withheld,  // freed, and other streams may be at work there yet
    free,
    leaving,  // its frame is about to be taken out
    hole,     // no memory is mapped
};

struct Block {
    Address address = 0;
    std::size_t bytes = 0;
    Extent* extent = nullptr;
    Block* before = nullptr;  // by address, within the extent, without a gap
    Block* behind = nullptr;
    BlockState state = BlockState::hole;
    bool is_handed_over = false;  // the plan gives its bytes to another stream next
    Stream stream = kNoStream;    // whose work used it last; its own alone, but for `marks`
    StreamMarks marks;            // of a free block of the arena: what else to wait for
    std::vector<Stream> used_on;  // of a block in use
    std::size_t requested = 0;
    std::int64_t request = -1;
    std::int32_t kind = -1;
    std::int32_t slot = -1;
    std::int64_t unknown_in = -1;  // step in which it was asked for, where no plan knew of it

    Address end() const { return address + bytes; }
};

}  // namespace gapless::runtime
