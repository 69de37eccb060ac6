// Every online allocator by its name, as tests make it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "policies/gmlake.h"
#include "policies/pytorch_caching.h"
#include "policies/pytorch_expandable.h"
#include "policies/vpmm.h"

namespace gapless::tests {

// Pages are those of the device; blocks of two are split and stitched.
inline std::unique_ptr<runtime::OnlineAllocator> make_policy(const std::string& name,
                                                             runtime::DeviceMemory& memory) {
    using namespace runtime;
    const std::size_t page = memory.page_bytes();
    if (name == "pytorch-caching") {
        return std::make_unique<PytorchCaching>(memory, PytorchSettings());
    }
    if (name == "pytorch-expandable") {
        return std::make_unique<PytorchExpandable>(memory, PytorchSettings());
    }
    if (name == "gmlake") {
        return std::make_unique<Gmlake>(
            memory, GmlakeRules{.chunk_bytes = page, .fragmentation_limit_bytes = 2 * page});
    }
    if (name == "vpmm") {
        return std::make_unique<Vpmm>(
            memory, VpmmSettings{.page_bytes = page, .chunk_bytes = std::size_t{2} << 30});
    }
    throw std::invalid_argument("no policy is called " + name);
}

}  // namespace gapless::tests
