// Every online allocator by its name, as tests make it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "online/gmlake.h"
#include "online/online_allocators.h"
#include "online/vpmm.h"

namespace gapless::tests {

// Pages are those of the device; blocks of two are split and stitched.
inline std::unique_ptr<runtime::OnlineAllocator> make_online(const std::string& name,
                                                             runtime::DeviceMemory& memory) {
    using namespace runtime;
    const std::size_t page = memory.page_bytes();
    if (name == "gmlake") {
        return std::make_unique<Gmlake>(
            memory, GmlakeRules{.chunk_bytes = page, .fragmentation_limit_bytes = 2 * page});
    }
    if (name == "vpmm") {
        return std::make_unique<Vpmm>(
            memory, VpmmSettings{.page_bytes = page, .chunk_bytes = std::size_t{2} << 30});
    }
    for (const OnlineDefinition& each : online_allocators()) {
        if (each.name != name) continue;
        OnlineValues usual;
        for (const OnlineParameter& parameter : each.parameters) usual.push_back(parameter.usual);
        return each.make(memory, usual);
    }
    throw std::invalid_argument("no online allocator is called " + name);
}

}  // namespace gapless::tests
