// Where a PyTorch program is: its phase, its module, and the visit that these two are.
#pragma once

#include <cstdint>
#include <vector>

#include "online/serving_online_allocator.h"

namespace gapless::runtime {

// Note [Module visits]
// ~~~~~~~~~~~~~~~~~~~~
// Rationale. Hooks tell which module runs. They run while a GPU waits for the host, so each tells a
// number, once, and no Python code decides what it means.
// Approach. A forward pass enters and leaves modules in turn, so a stack keeps the modules around.
// A backward pass enters a module with a gradient of its outputs, and leaves it with one of its
// inputs. These come in no strict order: one gradient may end a module and begin the one before it.
// So the begin of a module is passed over within that module, and its end everywhere else. The end
// goes back to the nearest module around it that has begun; the module around one is the one that
// called it. A recomputed forward pass restores the module of the backward pass around it. A visit
// has the number (phase + 1) * width + column, with a column for each module; modules of one column
// are not told apart.
// Limits. One thread at a time runs the program, as the interpreter's lock has it.
class ModuleVisits {
  public:
    explicit ModuleVisits(ServingOnlineAllocator& serving) : serving_(serving) {}

    // Returns the number of a new module within another one, or within none, which is -1. Throws
    // std::out_of_range if there is no such module.
    std::int64_t add(std::int64_t around, std::int64_t column);
    // Renumbers the visits. Throws std::invalid_argument unless every module has a column, and
    // std::out_of_range if a number of a visit could have more than 63 bits.
    void renumber(std::int64_t width, std::vector<std::int64_t> columns);

    // The phase is -1 before the first one. Throws std::out_of_range for an unknown module or a
    // phase outside 32 bits.
    void enter(std::int64_t phase, std::int64_t module);
    void begin_phase(std::int64_t phase);
    void begin_forward(std::int64_t module);
    void end_forward();
    void begin_backward(std::int64_t module);
    void end_backward(std::int64_t module);
    // Leaves every module, as after a backward pass. Forward passes around it end as they began.
    void leave_all();

    // The number of modules whose forward pass has begun and not ended.
    std::size_t depth() const { return around_.size(); }

  private:
    static constexpr std::int64_t kNone = -1;
    // Numbers of 31 bits: (phase + 1) * width + column has at most 63.
    static constexpr std::int64_t kMost = 0x7fff'fffe;

    void require(std::int64_t module) const;
    static void require_number(const char* name, std::int64_t least, std::int64_t found);
    bool is_within(std::int64_t module) const;
    void move(std::int64_t module);
    void tell();

    ServingOnlineAllocator& serving_;
    std::int64_t width_ = 1;
    // By module, the one around it and its column.
    std::vector<std::int64_t> parents_, columns_;
    std::vector<bool> is_open_;         // by module, whether its backward pass has begun
    std::vector<std::int64_t> around_;  // what forward passes go back to
    std::int64_t phase_ = kNone, module_ = kNone;
};

}  // namespace gapless::runtime
