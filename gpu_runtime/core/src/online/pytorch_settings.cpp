#include "online/pytorch_settings.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;
constexpr std::size_t kSmallSegment = 2 * kMib;
constexpr std::size_t kLargeRounding = 2 * kMib;
constexpr std::size_t kOwnSegment = 10 * kMib;  // from here on a request has a segment by itself

void require(bool holds, const std::string& rule, const std::string& found) {
    if (!holds) throw std::invalid_argument(rule + ", found " + found);
}

}  // namespace

void PytorchSettings::validate() const {
    require(large_segment_bytes > kOwnSegment && large_segment_bytes % kMib == 0 &&
                large_segment_bytes <= kMostBytes,
            "field large_segment_bytes: a multiple of 1 MiB, more than 10 MiB",
            std::to_string(large_segment_bytes));
    require(expandable_page_bytes <= kMostBytes,
            "field expandable_page_bytes: at most " + std::to_string(kMostBytes),
            std::to_string(expandable_page_bytes));
    require(max_split_bytes >= large_segment_bytes,
            "field max_split_bytes: at least large_segment_bytes", std::to_string(max_split_bytes));
    require(max_non_split_rounding_bytes >= large_segment_bytes,
            "field max_non_split_rounding_bytes: at least large_segment_bytes",
            std::to_string(max_non_split_rounding_bytes));
    for (const std::size_t divisions : roundup_power2_divisions) {
        require(divisions == 0 || (std::has_single_bit(divisions) && divisions <= kMib),
                "field roundup_power2_divisions: 0 or powers of two up to 1048576",
                std::to_string(divisions));
    }
    require(garbage_collection_threshold >= 0 && garbage_collection_threshold < 1,
            "field garbage_collection_threshold: at least 0, less than 1",
            std::to_string(garbage_collection_threshold));
    require(per_process_memory_fraction >= 0 && per_process_memory_fraction <= 1,
            "field per_process_memory_fraction: 0 to 1",
            std::to_string(per_process_memory_fraction));
}

std::size_t PytorchSettings::rounded(std::size_t requested) const {
    if (requested <= kBlockAlignment) return kBlockAlignment;
    const auto power = static_cast<std::size_t>(std::bit_width(requested) - 1);
    const auto first = static_cast<std::size_t>(std::bit_width(kMib) - 1);
    const std::size_t divisions =
        roundup_power2_divisions[std::clamp(power, first, first + kPowers - 1) - first];
    if (divisions > 1 && requested > kBlockAlignment * divisions) {
        return round_up(requested, (std::size_t{1} << power) / divisions);
    }
    return round_up(requested, kBlockAlignment);
}

std::size_t PytorchSettings::segment_for(std::size_t bytes) const {
    if (bytes <= kSmallBytes) return kSmallSegment;
    if (bytes < kOwnSegment) return large_segment_bytes;
    return round_up(bytes, kLargeRounding);
}

}  // namespace gapless::runtime
