// The online allocators by name, with the parameters that users set. A new one is a file with its
// class and a function that describes it, and a line in GAPLESS_ONLINE_ALLOCATORS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "device/device_memory.h"
#include "online/online_allocator.h"
#include "online/pytorch_settings.h"

#define GAPLESS_ONLINE_ALLOCATORS(EACH) \
    EACH(describe_pytorch_caching)      \
    EACH(describe_pytorch_expandable)   \
    EACH(describe_gmlake)               \
    EACH(describe_vpmm)                 \
    EACH(describe_stweaver)

namespace gapless::runtime {

using OnlineValue = std::variant<bool, std::int64_t, PytorchSettings>;
using OnlineValues = std::vector<OnlineValue>;
using MadeOnline = std::unique_ptr<OnlineAllocator>;

// A parameter of an online allocator, for users.
struct OnlineParameter {
    std::string name;
    std::string help;
    OnlineValue usual;
    // Bounds of a number.
    std::int64_t least = 0, most = 0;
    bool is_power_of_two = false;
};

struct OnlineDefinition {
    std::string name;
    // One sentence on its method, and its publication.
    std::string summary, source;
    std::vector<OnlineParameter> parameters;
    // `values` has a value for each parameter, in their order. Throws the constructor's errors.
    MadeOnline (*make)(DeviceMemory& memory, const OnlineValues& values);
    // The kind of memory that a replay puts at its recorded addresses: "plain", "ranges" or none.
    // Addresses matter if the allocator chooses by them between blocks of one size.
    std::string dictated;
    // Whether memory that a stream freed may serve another one, behind an event of the first.
    bool crosses_streams = false;
};

// The settings of PYTORCH_CUDA_ALLOC_CONF, a parameter of both allocators of PyTorch.
inline OnlineParameter pytorch_settings_parameter() {
    return {.name = "settings",
            .help = "settings in the format of PYTORCH_CUDA_ALLOC_CONF",
            .usual = PytorchSettings()};
}

constexpr std::int64_t kMostMebibytes = std::int64_t{1} << 28;

inline std::size_t bytes_of_mebibytes(const OnlineValue& value) {
    return static_cast<std::size_t>(std::get<std::int64_t>(value)) << 20;
}

#define GAPLESS_DECLARED(describe) OnlineDefinition describe();
GAPLESS_ONLINE_ALLOCATORS(GAPLESS_DECLARED)
#undef GAPLESS_DECLARED

inline std::vector<OnlineDefinition> online_allocators() {
#define GAPLESS_CALLED(describe) describe(),
    return {GAPLESS_ONLINE_ALLOCATORS(GAPLESS_CALLED)};
#undef GAPLESS_CALLED
}

}  // namespace gapless::runtime
