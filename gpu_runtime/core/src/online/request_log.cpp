#include "online/request_log.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "device/sizes.h"

namespace gapless::runtime {

namespace {

[[noreturn]] void refuse(std::size_t row, const std::string& rule) {
    throw std::invalid_argument("row " + std::to_string(row) + ": " + rule);
}

bool is_leaving(RecordedAction action) {
    return action == RecordedAction::segment_freed || action == RecordedAction::segment_unmapped;
}

}  // namespace

RequestLog::RequestLog(const RecordedRows& recorded)
    : visits_(recorded.visit), pools_(recorded.pool) {
    const std::size_t count = recorded.action.size();
    if (recorded.address.size() != count || recorded.bytes.size() != count ||
        recorded.stream.size() != count || (!visits_.empty() && visits_.size() != count) ||
        (!pools_.empty() && pools_.size() != count)) {
        throw std::invalid_argument("every column of a recorded run has one entry for each row");
    }
    if (count > std::numeric_limits<std::uint32_t>::max()) {
        throw std::invalid_argument("a recorded run has at most 4294967295 rows, found " +
                                    std::to_string(count));
    }
    const auto action = [&](std::size_t row) {
        return static_cast<RecordedAction>(recorded.action[row]);
    };
    const auto goes_on = [&](std::size_t row) {
        return row > 0 && is_leaving(action(row - 1)) &&
               (pools_.empty() || pools_[row] == pools_[row - 1]);
    };
    const bool tells_ends =
        std::ranges::count(recorded.action,
                           static_cast<std::uint8_t>(RecordedAction::free_completed)) > 0;
    std::unordered_map<Address, std::uint32_t> live, freed;
    rows_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const Address address = recorded.address[i];
        const auto at = live.find(address);
        switch (action(i)) {
            case RecordedAction::allocate: {
                const std::int64_t bytes = recorded.bytes[i];
                if (bytes <= 0 || static_cast<std::size_t>(bytes) > kMostBytes) {
                    refuse(i, "a request has 1 to " + std::to_string(kMostBytes) +
                                  " bytes, found " + std::to_string(bytes));
                }
                if (at != live.end()) refuse(i, "a block begins at the address of a live block");
                const auto number = static_cast<std::uint32_t>(requests_.size());
                requests_.push_back({static_cast<std::size_t>(bytes), recorded.stream[i], address});
                live.emplace(address, number);
                rows_[i] = {What::allocate, number};
                break;
            }
            case RecordedAction::free_requested: {
                if (at == live.end()) break;
                const bool ends_now =
                    !tells_ends ||
                    (i + 1 < count && action(i + 1) == RecordedAction::free_completed &&
                     recorded.address[i + 1] == address);
                rows_[i] = {ends_now ? What::free : What::free_later, at->second};
                if (!ends_now) freed.insert_or_assign(address, at->second);
                live.erase(at);
                break;
            }
            case RecordedAction::free_completed:
                if (const auto found = freed.find(address); found != freed.end()) {
                    rows_[i] = {What::complete, found->second};
                    freed.erase(found);
                } else if (at != live.end()) {
                    rows_[i] = {What::free, at->second};
                    live.erase(at);
                }
                break;
            case RecordedAction::segment_freed:
            case RecordedAction::segment_unmapped:
                if (!goes_on(i)) rows_[i] = {What::give_back, 0};
                break;
            case RecordedAction::segment_allocated:
            case RecordedAction::segment_mapped:
                break;
        }
    }
}

}  // namespace gapless::runtime
