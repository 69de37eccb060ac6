// Asks the allocator that PyTorch has for a kind of device, with nothing else of PyTorch around it.
#include <c10/core/Allocator.h>

#include <cstddef>

// Takes so many blocks, each of which is given back at once.
extern "C" void take_pairs(int device_type, std::size_t bytes, long pairs) {
    c10::Allocator& allocator = *c10::GetAllocator(static_cast<c10::DeviceType>(device_type));
    for (long pair = 0; pair < pairs; ++pair) (void)allocator.allocate(bytes);
}
