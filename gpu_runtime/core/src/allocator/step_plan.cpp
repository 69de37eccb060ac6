#include "allocator/step_plan.h"

#include <stdexcept>
#include <string>

#include "allocator/block.h"

namespace gapless::runtime {

namespace {

[[noreturn]] void refuse(std::size_t number, const std::string& rule) {
    throw std::invalid_argument("plan " + std::to_string(number) + ": " + rule);
}

void require_place(const StepPlan& plan, std::size_t number, std::size_t request,
                   std::size_t arena_bytes) {
    const std::string found = ", found " + std::to_string(plan.bytes[request]) + " at offset " +
                              std::to_string(plan.offset[request]) + ", request " +
                              std::to_string(request);
    if (plan.bytes[request] <= 0) refuse(number, "a request has at least one byte" + found);
    const auto bytes = static_cast<std::size_t>(plan.bytes[request]);
    if (bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    const std::int64_t offset = plan.offset[request];
    if (offset == kNoPlace) return;
    const bool is_beside = plan.beside[request] != 0;
    if ((offset < 0 && !is_beside) || offset % static_cast<std::int64_t>(kBlockAlignment) != 0) {
        refuse(number, "offsets are multiples of 512" + found);
    }
    if (is_beside) return;
    const auto begin = static_cast<std::size_t>(offset);
    if (begin > arena_bytes || round_up(bytes, kBlockAlignment) > arena_bytes - begin) {
        refuse(number,
               "places lie within the arena of " + std::to_string(arena_bytes) + " bytes" + found);
    }
}

}  // namespace

void require_plans(const std::vector<StepPlan>& plans, std::size_t arena_bytes) {
    if (arena_bytes > kMostBytes) throw OutOfDeviceMemory("no device has as much");
    for (std::size_t number = 0; number < plans.size(); ++number) {
        const StepPlan& plan = plans[number];
        if (plan.bytes.size() != plan.request_count() ||
            plan.offset.size() != plan.request_count() ||
            plan.beside.size() != plan.request_count()) {
            refuse(number, "every request has bytes and an offset, found " +
                               std::to_string(plan.bytes.size()) + " and " +
                               std::to_string(plan.offset.size()) + " for " +
                               std::to_string(plan.request_count()));
        }
        for (std::size_t request = 0; request < plan.request_count(); ++request) {
            require_place(plan, number, request, arena_bytes);
        }
    }
}

}  // namespace gapless::runtime
