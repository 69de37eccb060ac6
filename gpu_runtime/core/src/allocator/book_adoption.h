// Carries out the decision on a book: its arena gets memory, keeps it between steps, or loses it.
#pragma once

#include "allocator/book.h"
#include "allocator/bounded_heap.h"

namespace gapless::runtime {

// Python's module of the same name decides when a book is adopted, when it goes, and why.
class BookAdoption {
  public:
    explicit BookAdoption(BoundedHeap& heap) : heap_(heap) {}

    // The book in force; an empty one stands for the heap alone.
    Book& book() { return book_; }
    const Book& book() const { return book_; }

    // Replaces the book in force; blocks in the arena stay. With `is_bounded`, memory above the
    // bound is mapped when a request comes to its place. Throws OutOfDeviceMemory or
    // DeviceCallError, with the former book still in force.
    void adopt(Lock& lock, Book book, bool is_bounded);
    // Drops the book: its arena becomes ordinary memory.
    void drop();
    // Gives the arena its frames back, as far as they are idle elsewhere by now.
    void restore_arena(Lock& lock, bool is_bounded);

  private:
    void obtain_arena(Lock& lock, std::size_t wanted, bool is_bounded);

    BoundedHeap& heap_;
    Book book_;
    // Old mappings were left in the arena at the end of the last step.
    bool lacks_places_ = false;
};

}  // namespace gapless::runtime
