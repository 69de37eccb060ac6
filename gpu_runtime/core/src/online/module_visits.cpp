#include "online/module_visits.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace gapless::runtime {

std::int64_t ModuleVisits::add(std::int64_t around, std::int64_t column) {
    require(around);
    require_number("column", 0, column);
    parents_.push_back(around);
    columns_.push_back(column);
    is_open_.push_back(false);
    return static_cast<std::int64_t>(parents_.size()) - 1;
}

void ModuleVisits::renumber(std::int64_t width, std::vector<std::int64_t> columns) {
    if (columns.size() != parents_.size()) {
        throw std::invalid_argument("columns: " + std::to_string(parents_.size()) +
                                    " are needed, one a module, found " +
                                    std::to_string(columns.size()));
    }
    require_number("width", 1, width);
    for (const std::int64_t column : columns) require_number("column", 0, column);
    width_ = width;
    columns_ = std::move(columns);
    tell();
}

void ModuleVisits::enter(std::int64_t phase, std::int64_t module) {
    require(module);
    require_number("phase", kNone, phase);
    phase_ = phase;
    module_ = module;
    tell();
}

void ModuleVisits::begin_phase(std::int64_t phase) {
    require_number("phase", kNone, phase);
    phase_ = phase;
    tell();
}

void ModuleVisits::begin_forward(std::int64_t module) {
    require(module);
    around_.push_back(module_);
    // Containers of modules have names and do not run.
    if (module_ < module) parents_[static_cast<std::size_t>(module)] = module_;
    move(module);
}

void ModuleVisits::end_forward() {
    if (around_.empty()) return;
    const std::int64_t module = around_.back();
    around_.pop_back();
    move(module);
}

void ModuleVisits::begin_backward(std::int64_t module) {
    require(module);
    if (module != kNone) is_open_[static_cast<std::size_t>(module)] = true;
    if (!is_within(module)) move(module);
}

void ModuleVisits::end_backward(std::int64_t module) {
    require(module);
    if (module == kNone) return;
    is_open_[static_cast<std::size_t>(module)] = false;
    if (!is_within(module)) return;
    std::int64_t around = module;
    while (around != kNone && !is_open_[static_cast<std::size_t>(around)]) {
        around = parents_[static_cast<std::size_t>(around)];
    }
    move(around);
}

void ModuleVisits::leave_all() {
    is_open_.assign(is_open_.size(), false);
    move(kNone);
}

void ModuleVisits::require(std::int64_t module) const {
    if (module >= kNone && module < static_cast<std::int64_t>(parents_.size())) return;
    throw std::out_of_range("module: a number from -1 to " +
                            std::to_string(static_cast<std::int64_t>(parents_.size()) - 1) +
                            " is needed, found " + std::to_string(module));
}

void ModuleVisits::require_number(const char* name, std::int64_t least, std::int64_t found) {
    if (found >= least && found <= kMost) return;
    throw std::out_of_range(std::string(name) + ": a number from " + std::to_string(least) +
                            " to " + std::to_string(kMost) + " is needed, found " +
                            std::to_string(found));
}

bool ModuleVisits::is_within(std::int64_t module) const {
    std::int64_t at = module_;
    // A module has a larger number than those around it.
    while (at > module) at = parents_[static_cast<std::size_t>(at)];
    return at == module;
}

void ModuleVisits::move(std::int64_t module) {
    if (module == module_) return;
    module_ = module;
    tell();
}

void ModuleVisits::tell() {
    const std::int64_t column = module_ == kNone ? 0 : columns_[static_cast<std::size_t>(module_)];
    serving_.enter((phase_ + 1) * width_ + column);
}

}  // namespace gapless::runtime
