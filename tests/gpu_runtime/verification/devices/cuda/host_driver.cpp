// A CUDA driver on the host, as far as the verification needs one. Appended to the kernel's code.
// What is launched runs at once, in the order of submission, so a right submission order is all
// that this can show; who precedes whom through streams and events is kept for each launch.

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Nodes = std::set<unsigned>;

struct Timeline {  // a stream, or an event: the nodes that precede it since all was waited for
    Nodes before;
    int passed_ms = 0;
    Timeline() { all().insert(this); }
    ~Timeline() { all().erase(this); }
    Timeline(const Timeline&) = delete;
    static std::set<Timeline*>& all() {
        static std::set<Timeline*> timelines;
        return timelines;
    }
    static void forget_all() {
        for (Timeline* timeline : all()) {
            timeline->before.clear();
        }
    }
};

struct Launch {
    Program program;
    unsigned node;
    unsigned blocks;
};

struct Graph {
    std::vector<Launch> launches;
};

std::size_t total_memory = std::size_t(16) << 20;
std::unordered_map<u64, std::size_t> allocations;
int devices = 1;
int refusal = 0;
int handles = 0;
int now_ms = 0;  // each launch and each copy takes one
Graph* captured = nullptr;
struct Launched {
    unsigned node;
    unsigned blocks;
    Nodes before;
};
std::vector<Launched> launches;

const int OUT_OF_MEMORY = 2;
const int INVALID_VALUE = 1;
const int NOT_FOUND = 500;

std::size_t free_memory() {
    std::size_t used = 0;
    for (const auto& [address, size] : allocations) {
        used += size;
    }
    return total_memory - used;
}

template <class T>
int make(void** handle) {
    *handle = new T();
    ++handles;
    return 0;
}

template <class T>
int destroy(void* handle) {
    delete static_cast<T*>(handle);
    --handles;
    return 0;
}

void run(const Launch& launch) {
    run_node(launch.program, launch.node);
    ++now_ms;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return refusal; }
int cuDeviceGetCount(int* count) { return *count = devices, 0; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char* name, int size, int) { return std::strncpy(name, "host", size), 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    return *value = attribute == 16 ? 2 : 9, 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = nullptr, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxSynchronize() { return Timeline::forget_all(), 0; }
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
    *free = free_memory();
    *total = total_memory;
    return 0;
}
int cuMemAlloc_v2(u64* address, std::size_t size) {
    const std::size_t rounded = (size + 511) / 512 * 512;
    if (rounded > free_memory()) {
        return OUT_OF_MEMORY;
    }
    *address = reinterpret_cast<u64>(std::aligned_alloc(512, rounded));
    allocations[*address] = rounded;
    return 0;
}
int cuMemFree_v2(u64 address) {
    if (allocations.erase(address) == 0) {
        return INVALID_VALUE;
    }
    std::free(reinterpret_cast<void*>(address));
    return 0;
}
int cuMemcpyHtoD_v2(u64 target, const void* source, std::size_t size) {
    return std::memcpy(reinterpret_cast<void*>(target), source, size), 0;
}
int cuMemcpyDtoH_v2(void* target, u64 source, std::size_t size) {
    return std::memcpy(target, reinterpret_cast<void*>(source), size), 0;
}
int cuMemcpyDtoDAsync_v2(u64 target, u64 source, std::size_t size, void*) {
    ++now_ms;
    return cuMemcpyHtoD_v2(target, reinterpret_cast<void*>(source), size);
}
int cuMemsetD8_v2(u64 target, unsigned char byte, std::size_t size) {
    return std::memset(reinterpret_cast<void*>(target), byte, size), 0;
}
int cuModuleLoadData(void** module, const void*) { return *module = nullptr, 0; }
int cuModuleGetFunction(void** function, void*, const char* name) {
    *function = nullptr;
    return std::strcmp(name, "run_node") == 0 ? 0 : INVALID_VALUE;
}
int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void* stream, void** arguments, void**) {
    Launch launch{*static_cast<Program*>(arguments[0]), *static_cast<unsigned*>(arguments[1]),
                  blocks};
    Nodes& before = static_cast<Timeline*>(stream)->before;
    launches.push_back(Launched{launch.node, blocks, before});
    before.insert(launch.node);
    if (captured != nullptr) {
        captured->launches.push_back(launch);
    } else {
        run(launch);
    }
    return blocks == 0 ? INVALID_VALUE : 0;
}
int cuStreamCreate(void** stream, unsigned) { return make<Timeline>(stream); }
int cuStreamDestroy_v2(void* stream) { return destroy<Timeline>(stream); }
int cuStreamSynchronize(void*) { return 0; }
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    const Nodes& before = static_cast<Timeline*>(event)->before;
    static_cast<Timeline*>(stream)->before.insert(before.begin(), before.end());
    return 0;
}
int cuStreamBeginCapture_v2(void*, int) {
    Timeline::forget_all();
    captured = new Graph();
    ++handles;
    return 0;
}
int cuStreamEndCapture(void*, void** graph) {
    *graph = captured;
    captured = nullptr;
    return 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    make<Graph>(executable);
    *static_cast<Graph*>(*executable) = *static_cast<Graph*>(graph);
    return 0;
}
int cuGraphLaunch(void* executable, void*) {
    for (const Launch& launch : static_cast<Graph*>(executable)->launches) {
        run(launch);
    }
    return 0;
}
int cuGraphDestroy(void* graph) { return destroy<Graph>(graph); }
int cuGraphExecDestroy(void* executable) { return destroy<Graph>(executable); }
int cuEventCreate(void** event, unsigned) { return make<Timeline>(event); }
int cuEventDestroy_v2(void* event) { return destroy<Timeline>(event); }
int cuEventRecord(void* event, void* stream) {
    static_cast<Timeline*>(event)->before = static_cast<Timeline*>(stream)->before;
    static_cast<Timeline*>(event)->passed_ms = now_ms;
    return 0;
}
int cuEventElapsedTime(float* milliseconds, void* begun, void* ended) {
    const int taken =
        static_cast<Timeline*>(ended)->passed_ms - static_cast<Timeline*>(begun)->passed_ms;
    return *milliseconds = static_cast<float>(taken), 0;
}
int cuGetErrorName(int status, const char** name) {
    *name = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
    return 0;
}
int cuGetErrorString(int, const char** text) { return *text = "as the host says", 0; }

// cuda-bindings ask for the functions by the names of the headers, without their versions.
int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
    Dl_info self;
    dladdr(reinterpret_cast<void*>(&cuInit), &self);
    void* library = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *function = dlsym(library, (std::string(name) + "_v2").c_str());
    if (*function == nullptr) {
        *function = dlsym(library, name);
    }
    dlclose(library);
    if (found != nullptr) {
        *found = *function == nullptr;
    }
    return *function == nullptr ? NOT_FOUND : 0;
}

// For the tests: what is still held, what was launched, how much memory there is.
int host_held() { return handles + static_cast<int>(allocations.size()); }
void host_hide() { devices = 0; }
void host_refuse(int status) { refusal = status; }
void host_set_memory(std::size_t bytes) { total_memory = bytes; }
unsigned host_launches() { return static_cast<unsigned>(launches.size()); }
void host_forget_launches() { launches.clear(); }
unsigned host_launched(unsigned at) { return launches[at].node; }
unsigned host_blocks(unsigned at) { return launches[at].blocks; }
int host_precedes(unsigned at, unsigned node) { return launches[at].before.count(node) != 0; }
}
