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
//
// Note [Sending away]
// ~~~~~~~~~~~~~~~~~~~
// Rationale. A tensor may also be sent to the host after the forward pass has used it, and fetched
// before it is used again. Copies run beside the nodes, one in each direction at a time.
//
// Approach. A sequence also lists copies: the number `nodes + t` sends tensor t away, and the
// number `nodes + tensors + t` fetches it. A sending waits for the last node of the unit that makes
// the tensor. The node behind a sending in the sequence waits for it, so that the bytes are free
// from there on. A fetch waits for the node in front of it, so that its bytes are taken from there
// on; whoever reads the tensor waits for the fetch. Sendings begin as early as they can, in the
// order of the last use. Each is listed in front of the first node that, without any wait, begins
// after its end. Fetches begin as late as they can without any wait, in the order of first use.
struct StepColumns {
    std::vector<std::int32_t> producer;
    std::vector<std::int64_t> consumer_offsets;
    std::vector<std::int32_t> consumers;
    std::vector<std::int64_t> size;
    // The unit of each node, and the seconds that it takes.
    std::vector<std::int32_t> unit;
    std::vector<double> seconds;
    // Whether each unit may run again, and whether each tensor may be sent away.
    std::vector<std::uint8_t> repeatable, sendable;
    // Seconds of a copy for each byte.
    double copy_seconds = 0;
    // First node that reads second copies; all nodes before it read first copies.
    std::int32_t first_late_node = 0;
};

// Which units run again and which tensors are sent away: one flag each.
struct Choice {
    std::vector<std::uint8_t> repeated, sent;
};

// What a sequence costs.
struct SequenceCost {
    // Seconds that it takes longer than the first runs alone.
    double seconds = 0;
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
    std::int32_t unit_count() const {
        return static_cast<std::int32_t>(columns_.repeatable.size());
    }
    std::int32_t tensor_count() const { return static_cast<std::int32_t>(columns_.size.size()); }
    // Seconds of all nodes of a unit.
    double seconds(std::int32_t unit) const { return unit_seconds_[unit]; }
    // Seconds of one copy of a tensor between device and host.
    double copy_seconds(std::int32_t tensor) const {
        return static_cast<double>(columns_.size[tensor]) * columns_.copy_seconds;
    }
    bool is_repeatable(std::int32_t unit) const { return columns_.repeatable[unit] != 0; }
    bool is_sendable(std::int32_t tensor) const { return columns_.sendable[tensor] != 0; }

    // Throws unless there is one flag a unit and one a tensor, and those set are allowed.
    void require_choice(const Choice& choice) const;
    // Throws std::out_of_range if an entry of the sequence does not exist.
    void require_sequence(std::span<const std::int32_t> sequence) const;

    // Returns the nodes and copies in the order in which they run. Each unit whose flag is set runs
    // again just before the first late node that needs a result of it, directly or for another
    // second run. A unit that no late node needs does not run again, and a tensor that nobody uses
    // late, or whose unit runs again, is not sent away.
    std::vector<std::int32_t> late_sequence(const Choice& choice) const;

    SequenceCost cost(std::span<const std::int32_t> sequence, std::int64_t limit) const;
    // Returns the live bytes at each place of a sequence.
    std::vector<std::int64_t> live_bytes(std::span<const std::int32_t> sequence) const;
    // Returns the seconds from the first run's begin to the last run's end.
    double total_seconds(std::span<const std::int32_t> sequence) const;

  private:
    std::vector<std::int32_t> with_repeats(const Choice& choice) const;
    std::vector<std::int32_t> with_copies(std::vector<std::int32_t> nodes,
                                          const Choice& choice) const;

    StepColumns columns_;
    std::vector<double> unit_seconds_;
    // Seconds of the first runs alone.
    double base_seconds_ = 0;
    // Tensors that each node reads or makes; nodes of each unit; tensors that each unit reads and
    // does not make.
    CompressedRows reads_, makes_, nodes_, inputs_;
};

}  // namespace gapless
