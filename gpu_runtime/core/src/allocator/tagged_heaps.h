// The heaps of requests that have a tag, and the tags of threads.
#pragma once

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/bounded_heap.h"

namespace gapless::runtime {

// Blocks of one tag have a heap of their own, so that its frames can be paused alone. No plan
// knows these blocks.
class TaggedHeaps {
  public:
    // `heaps` gets each heap that is made here.
    TaggedHeaps(DeviceMemory& memory, bool is_plain, BlockStatistics& statistics,
                MemoryBound& bound, std::vector<BoundedHeap*>& heaps)
        : memory_(memory),
          is_plain_(is_plain),
          statistics_(statistics),
          bound_(bound),
          heaps_(heaps) {}

    // Gives requests of the calling thread a tag from now on; the empty tag is none. Returns the
    // tag before.
    std::string set_tag(const std::string& tag) {
        std::string& of_thread = tags_[std::this_thread::get_id()];
        std::string before = std::exchange(of_thread, tag);
        if (tag.empty()) {
            tags_.erase(std::this_thread::get_id());
        } else {
            const auto [entry, is_new] =
                by_tag_.try_emplace(tag, memory_, is_plain_, statistics_, bound_, heaps_);
            if (is_new) heaps_.push_back(&entry->second);
        }
        return before;
    }
    // The heap of the calling thread's tag; null without a tag, and while that heap is paused.
    BoundedHeap* of_thread() {
        if (tags_.empty()) return nullptr;
        const auto tag = tags_.find(std::this_thread::get_id());
        if (tag == tags_.end()) return nullptr;
        BoundedHeap& heap = by_tag_.at(tag->second);
        return heap.blocks().is_paused() ? nullptr : &heap;
    }
    std::map<std::string, BoundedHeap>& by_tag() { return by_tag_; }

  private:
    DeviceMemory& memory_;
    const bool is_plain_;
    BlockStatistics& statistics_;
    MemoryBound& bound_;
    std::vector<BoundedHeap*>& heaps_;
    std::map<std::string, BoundedHeap> by_tag_;
    std::map<std::thread::id, std::string> tags_;  // of threads that have one
};

}  // namespace gapless::runtime
