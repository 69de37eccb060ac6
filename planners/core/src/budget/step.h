// A step of which some nodes may run a second time, so that their results need not be kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reorder/order_problem.h"

namespace gapless {

// Note [Units]
// ~~~~~~~~~~~~
// Rationale. A kernel may change in place what another kernel made. To get the same bytes again,
// both must run again.
//
// Approach. Nodes that must run again together are one unit, and a unit runs again as a whole, in
// the order of its nodes. Every node is in one unit. A sequence lists nodes in the order in which
// they run. A node that runs again makes new copies of its tensors; whoever reads a tensor reads
// its latest copy. A copy lives from the run that makes it to the last run that reads it.
//
// Limits. A unit runs at most twice.
struct StepColumns {
    std::vector<std::int32_t> producer;
    std::vector<std::int64_t> consumer_offsets;
    std::vector<std::int32_t> consumers;
    std::vector<std::int64_t> size;
    // The unit of each node.
    std::vector<std::int32_t> unit;
    // Seconds of a second run, one a unit; a negative number if the unit may not run again.
    std::vector<double> seconds;
    // First node that reads second copies; all nodes before it read first copies.
    std::int32_t first_late_node = 0;
};

// What a sequence costs in memory.
struct SequenceMemory {
    std::int64_t peak = 0;
    // Sum of the bytes above a limit over all places of the sequence, divided by the limit.
    double excess = 0;
};

class Step {
  public:
    // Throws std::out_of_range if a node or a unit does not exist, and std::invalid_argument if
    // columns do not fit together.
    Step(std::int64_t nodes, StepColumns columns);

    std::int32_t node_count() const { return static_cast<std::int32_t>(columns_.unit.size()); }
    std::int32_t unit_count() const { return static_cast<std::int32_t>(columns_.seconds.size()); }
    std::int32_t tensor_count() const { return static_cast<std::int32_t>(columns_.size.size()); }
    double seconds(std::int32_t unit) const { return columns_.seconds[unit]; }
    bool is_repeatable(std::int32_t unit) const { return columns_.seconds[unit] >= 0; }

    // Throws unless there is one flag a unit, and those set are repeatable.
    void require_flags(std::span<const std::uint8_t> repeated) const;
    // Throws std::out_of_range if a node of the sequence does not exist.
    void require_sequence(std::span<const std::int32_t> sequence) const;

    // Returns the nodes in the order in which they run, where each unit whose flag is set runs
    // again just before the first late node that needs a result of it, directly or for another
    // second run. A unit that no late node needs does not run again. Adds the seconds of the
    // second runs to `seconds`.
    std::vector<std::int32_t> late_sequence(std::span<const std::uint8_t> repeated,
                                            double& seconds) const;

    SequenceMemory memory(std::span<const std::int32_t> sequence, std::int64_t limit) const;
    // Returns the live bytes at each place of a sequence.
    std::vector<std::int64_t> live_bytes(std::span<const std::int32_t> sequence) const;

  private:
    void live_into(std::span<const std::int32_t> sequence, std::vector<std::int64_t>& live) const;

    StepColumns columns_;
    // Tensors that each node reads or makes; nodes of each unit; tensors that each unit reads and
    // does not make.
    CompressedRows reads_, makes_, nodes_, inputs_;
};

}  // namespace gapless
