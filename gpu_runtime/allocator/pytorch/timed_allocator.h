// Times requests and frees in the allocator in force, whichever it is.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "passing_on.h"

namespace gapless {

struct RequestTime {
    std::atomic<std::int64_t> nanoseconds{0};
    std::atomic<std::int64_t> events{0};  // requests and frees
};

// Passes every call on. So PyTorch's allocator and ours are timed at the same place by the same
// clock, with their device calls, and the decorator's own work counts as ours.
class TimedAllocator final : public PassingOn {
  public:
    explicit TimedAllocator(CUDAAllocator& inner)
        : PassingOn(inner), inner_deleter_(inner.raw_deleter()) {}

    DataPtr allocate(std::size_t bytes) override {
        DataPtr block = timed([&] { return inner_.allocate(bytes); });
        adopt(block);
        return block;
    }
    void* raw_alloc(std::size_t bytes) override {
        return timed([&] { return inner_.raw_alloc(bytes); });
    }
    void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t stream) override {
        return timed([&] { return inner_.raw_alloc_with_stream(bytes, stream); });
    }
    void raw_delete(void* block) override {
        timed([&] { inner_.raw_delete(block); });
    }
    c10::DeleterFnPtr raw_deleter() const override {
        const c10::DeleterFnPtr deleter = inner_.raw_deleter();
        return deleter == inner_deleter_ ? &free : deleter;
    }
    void recordStream(const DataPtr& block, c10::cuda::CUDAStream stream) override {
        if (block.get_deleter() != &free) return inner_.recordStream(block, stream);
        const Borrowed own(block, inner_deleter_);
        inner_.recordStream(own.block, stream);
    }

    static inline TimedAllocator* only = nullptr;  // never destroyed: tensors are freed late
    static inline RequestTime time;
    static inline std::atomic<bool> is_on{false};

  private:
    void adopt(DataPtr& block) override {
        (void)block.compare_exchange_deleter(inner_deleter_, &free);
    }
    std::shared_ptr<c10::GatheredContext> own_context_of(const void* /*address*/) override {
        return nullptr;
    }
    bool annotate_own(const void* /*address*/, const std::string& /*metadata*/) override {
        return false;
    }

    static void free(void* block) {
        timed([&] { only->inner_deleter_(block); });
    }

    template <class Call>
    static auto timed(Call call) -> decltype(call()) {
        if (!is_on.load(std::memory_order_relaxed)) return call();
        struct Watch {
            std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
            ~Watch() {
                const auto taken = std::chrono::steady_clock::now() - begin;
                time.nanoseconds += std::chrono::nanoseconds(taken).count();
                ++time.events;
            }
        } const watch;
        return call();
    }

    const c10::DeleterFnPtr inner_deleter_;
};

}  // namespace gapless
