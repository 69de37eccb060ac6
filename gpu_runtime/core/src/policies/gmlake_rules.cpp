#include "policies/gmlake_rules.h"

#include <stdexcept>
#include <string>

namespace gapless::runtime {

void GmlakeRules::validate(std::size_t page_bytes) const {
    if (chunk_bytes == 0 || chunk_bytes % page_bytes != 0) {
        throw std::invalid_argument("field chunk_bytes: a multiple of the device's " +
                                    std::to_string(page_bytes) + " bytes, found " +
                                    std::to_string(chunk_bytes));
    }
}

}  // namespace gapless::runtime
