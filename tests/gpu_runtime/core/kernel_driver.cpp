// The part of a CUDA driver that launches, on the host, for the kernels whose code stands before
// this: one thread, at once. Beside memory_driver.cpp.

#include <cstring>
#include <set>

namespace {

std::set<void*> streams, modules, captured;
int launches_to_failure = -1, said_of_capture = 0;
char stamp_handle, compare_handle;  // their addresses are the handles

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuDeviceGetAttribute(int* value, int attribute, int) {
    return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : -1, 0;
}
int cuDeviceGetName(char* name, int size, int) {
    return std::strncpy(name, "a stand-in", static_cast<std::size_t>(size)), 0;
}
int cuModuleLoadData(void** module, const void* image) {
    if (std::strcmp(static_cast<const char*>(image), "image") != 0) return 1;
    *module = new char;
    return modules.insert(*module), 0;
}
int cuModuleUnload(void* module) {
    if (modules.erase(module) == 0) return 1;
    return delete static_cast<char*>(module), 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
    if (modules.count(module) == 0) return 1;
    *function = std::strcmp(name, "stamp_free") == 0     ? &stamp_handle
                : std::strcmp(name, "compare_free") == 0 ? &compare_handle
                                                         : nullptr;
    return *function == nullptr ? 1 : 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void* stream, void** arguments, void**) {
    if (blocks == 0 || threads != 256 || captured.count(stream) != 0) return 1;
    if (launches_to_failure >= 0 && launches_to_failure-- == 0) return 999;
    const u64 address = *static_cast<u64*>(arguments[0]), bytes = *static_cast<u64*>(arguments[1]),
              words = *static_cast<u64*>(arguments[2]);
    if (function == &stamp_handle) {
        stamp_free(address, bytes, words);
    } else {
        compare_free(address, bytes, words, *static_cast<u64*>(arguments[3]),
                     *static_cast<Slot**>(arguments[4]));
    }
    return 0;
}
int cuStreamCreate(void** stream, unsigned flags) {
    if (flags != 1) return 1;
    return *stream = new char, streams.insert(*stream), 0;
}
int cuStreamSynchronize(void* stream) { return streams.count(stream) != 0 ? 0 : 1; }
int cuStreamDestroy_v2(void* stream) {
    if (streams.erase(stream) == 0) return 1;
    return delete static_cast<char*>(stream), 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
    return *status = captured.count(stream) != 0 ? 1 : 0, said_of_capture;
}
int cuMemsetD8_v2(u64 target, unsigned char byte, std::size_t size) {
    return std::memset(reinterpret_cast<void*>(target), byte, size), 0;
}
int cuMemcpyDtoHAsync_v2(void* target, u64 source, std::size_t size, void*) {
    return std::memcpy(target, reinterpret_cast<void*>(source), size), 0;
}

// For the tests.
int host_kernel_handles() { return static_cast<int>(streams.size() + modules.size()); }
void host_capture(void* stream) { captured.insert(stream); }
void host_end_capture(void* stream) { captured.erase(stream); }
void host_say_of_capture(int status) { said_of_capture = status; }
void host_fail_launch(int after) { launches_to_failure = after; }
}
#pragma GCC visibility pop
