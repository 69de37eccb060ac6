// Asks the allocator that PyTorch has for a kind of device, with nothing else of PyTorch around it.
#include <c10/core/Allocator.h>

#include <chrono>
#include <cstddef>

// Seconds that a pair takes: a block that is given back at once.
extern "C" double seconds_of_a_pair(int device_type, std::size_t bytes, long pairs) {
    c10::Allocator& allocator = *c10::GetAllocator(static_cast<c10::DeviceType>(device_type));
    const auto begun = std::chrono::steady_clock::now();
    for (long pair = 0; pair < pairs; ++pair) (void)allocator.allocate(bytes);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    return taken.count() / static_cast<double>(pairs);
}
