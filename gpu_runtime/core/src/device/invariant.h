// What checks of invariants throw.
#pragma once

#include <stdexcept>

namespace gapless::runtime {

inline void require(bool holds, const char* rule) {
    if (!holds) throw std::logic_error(rule);
}

}  // namespace gapless::runtime
