// The memory of a plan: an arena with a place for every request of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "allocator/page_heap.h"
#include "allocator/step_plan.h"
#include "device/device_memory.h"

namespace gapless::runtime {

// Note [Uses by other streams]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A place of the arena that another stream used comes back as soon as the program frees it, as the
// plan has it. Whoever gets bytes of it next belongs to the same stream as it did, because each
// stream has a part of the arena of its own; that stream then waits on the device for the other's
// work, as recorded at the free. What it is given later waits with it, so one wait is enough. The
// host never waits, and no memory is held back. PyTorch's own allocator holds the block back
// instead, until it happens to see that the work is done. Where the device refuses to record the
// work, the place is withheld until everything is waited for.

// Whole pages, and for the rest the beginning of one that the heap has anyway, where there is room:
// that page appears at two addresses, and no byte of it is used at both.
class PlanArena {
  public:
    // Takes no memory yet.
    PlanArena(DeviceMemory& memory, PageHeap& heap, StepPlan plan);

    // Takes the memory. Throws OutOfDeviceMemory, DeviceCallError; release() undoes what was done.
    void obtain();
    // Gives all memory back, once nothing is in use and the device was waited for. Where the device
    // refuses, it throws, and may be called again.
    void release();

    StepPlan& plan() { return plan_; }
    // Physical memory that it has for itself.
    std::size_t own_bytes() const { return own_bytes_; }
    bool owns(Address address) const { return address - address_ < range_bytes_; }
    bool is_in_use() const { return plan_.slots_in_use() > 0; }

    // Decides about a request as StepPlan does. The stream of a planned one waits for whoever else
    // used its place; where the device refuses that, throws, and the place is not taken.
    Decision request(Stream stream, std::size_t bytes);
    Address address_of(std::int32_t slot) const {
        return address_ + static_cast<Address>(plan_.offset_of(slot));
    }
    // Slot that the program has at an address, -1 where it has none.
    std::int32_t slot_at(Address address) const;
    void free(std::int32_t slot);
    void use_on(std::int32_t slot, Stream stream);

    // Everything on the device is done: no stream has to wait any more.
    void settle();

  private:
    // Work of other streams on a place that its own stream got back.
    struct Use {
        std::int64_t begin;
        Event event;
        bool waited_for = false;  // only its event is left, which the device did not destroy
    };

    void wait_for_uses(std::int32_t slot);
    void record_uses(std::int32_t slot);

    DeviceMemory& memory_;
    PageHeap& heap_;
    StepPlan plan_;

    Address address_ = 0;
    std::size_t range_bytes_ = 0;  // of its addresses
    Pages pages_ = 0;
    std::size_t own_bytes_ = 0;  // of its pages
    bool is_mapped_ = false;
    std::optional<PageHeap::Room> room_;
    bool is_room_mapped_ = false;

    std::unordered_map<std::int32_t, std::vector<Stream>> used_on_;  // slots
    // By where they end. Places share no byte, as who gets bytes of one ends its uses.
    std::multimap<std::int64_t, Use> uses_;
    // Freed slots whose uses could not be recorded: only the device's end tells that they are free.
    std::vector<std::int32_t> withheld_;
};

}  // namespace gapless::runtime
