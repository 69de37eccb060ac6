// A memory pool for tree nodes, which are made and dropped at each request.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

namespace gapless::runtime {

// All nodes have one size, so the node freed last serves the next request. The pool keeps its
// memory until it is destroyed.
class NodePool final : public std::pmr::memory_resource {
  private:
    union Node {
        Node* next;
        alignas(std::max_align_t) std::byte bytes[64];
    };
    // Nodes that are allocated at once. A guess.
    static constexpr std::size_t kChunk = 1024;

    void* do_allocate(std::size_t bytes, std::size_t /*alignment*/) override {
        if (bytes > sizeof(Node)) throw std::bad_alloc();
        if (free_ == nullptr) grow();
        Node* const node = free_;
        free_ = node->next;
        return node;
    }
    void do_deallocate(void* p, std::size_t /*bytes*/, std::size_t /*alignment*/) override {
        auto* const node = static_cast<Node*>(p);
        node->next = free_;
        free_ = node;
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }
    void grow() {
        Node* const chunk = chunks_.emplace_back(std::make_unique<Node[]>(kChunk)).get();
        for (std::size_t i = kChunk; i > 0; --i) {
            chunk[i - 1].next = free_;
            free_ = &chunk[i - 1];
        }
    }

    std::vector<std::unique_ptr<Node[]>> chunks_;
    Node* free_ = nullptr;
};

}  // namespace gapless::runtime
