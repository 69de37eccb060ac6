#include "device/cuda_checks.h"

#include <algorithm>

namespace gapless::runtime {

namespace {

// Must equal the constants of gpu_runtime/allocator/overwrite_kernels.cu.
constexpr unsigned kThreads = 256;
constexpr std::size_t kMostBlocks = 1024;
constexpr std::size_t kBytesABlock = 16 * kThreads;
constexpr unsigned kSlots = 1024;
struct Slot {
    std::uint64_t comparison;  // its number plus 1; 0 for a free slot
    std::uint64_t words;
    std::uint64_t first_complement;
};

}  // namespace

CudaChecks::CudaChecks(const CudaFunctions& cuda, void* context, const std::string& image)
    : cuda_(cuda), context_(context) {
    const InContext current(cuda_, context_);
    try {
        cuda_.require(cuda_.load_module(&module_, image.data()), "cuModuleLoadData");
        cuda_.require(cuda_.find_kernel(&stamp_, module_, "stamp_free"), "cuModuleGetFunction");
        cuda_.require(cuda_.find_kernel(&compare_, module_, "compare_free"), "cuModuleGetFunction");
        cuda_.require(cuda_.create_stream(&stream_, kNonBlocking), "cuStreamCreate");
        cuda_.require(cuda_.allocate(&slots_, kSlots * sizeof(Slot)), "cuMemAlloc");
        cuda_.require(cuda_.fill(slots_, 0, kSlots * sizeof(Slot)), "cuMemsetD8");
    } catch (...) {
        release();
        throw;
    }
}

CudaChecks::~CudaChecks() {
    try {
        const InContext current(cuda_, context_);
        release();
    } catch (const DeviceCallError&) {
        // The context was destroyed, and all of its resources with it.
    }
}

void CudaChecks::stamp(Address address, std::uint64_t bytes, Stream stream, Address words) const {
    void* arguments[] = {&address, &bytes, &words};
    launch(stamp_, bytes, stream, arguments);
}

void CudaChecks::compare(Address address, std::uint64_t bytes, Stream stream, std::uint64_t number,
                         Address words) const {
    Address slots = slots_;
    void* arguments[] = {&address, &bytes, &words, &number, &slots};
    launch(compare_, bytes, stream, arguments);
}

std::vector<Overwritten> CudaChecks::overwritten() const {
    const InContext current(cuda_, context_);
    std::vector<Slot> slots(kSlots);
    cuda_.require(cuda_.copy_to_host(slots.data(), slots_, slots.size() * sizeof(Slot), stream_),
                  "cuMemcpyDtoHAsync");
    cuda_.require(cuda_.synchronize_stream(stream_), "cuStreamSynchronize");
    std::vector<Overwritten> found;
    for (const Slot& slot : slots) {
        if (slot.comparison == 0) continue;
        found.push_back({slot.comparison - 1, ~slot.first_complement, slot.words});
    }
    return found;
}

void CudaChecks::launch(void* kernel, std::size_t bytes, Stream stream, void** arguments) const {
    const InContext current(cuda_, context_);
    const std::size_t blocks = std::clamp<std::size_t>(bytes / kBytesABlock, 1, kMostBlocks);
    cuda_.require(cuda_.launch(kernel, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0,
                               as_handle(stream), arguments, nullptr),
                  "cuLaunchKernel");
}

void CudaChecks::release() {
    if (slots_ != 0) cuda_.free(slots_);
    if (stream_ != nullptr) cuda_.destroy_stream(stream_);
    if (module_ != nullptr) cuda_.unload_module(module_);
}

}  // namespace gapless::runtime
