"""A trace as if its model's states lay otherwise: sharded by DeepSpeed's ZeRO, or on the host.

Note: ZeRO by sizes
-------------------
Rationale. DeepSpeed is not PyTorch's code, and its kernels need a GPU. What its stages keep follows
from sizes.

Approach. A trace of one process is replayed with other blocks. Under stages 1 and 2 an optimizer's
states are those of one of all ranks, and under stage 2 the gradients too. If weights have 16 bits,
each has a copy in float32 among the states, of 4 bytes as each state. Stage 3 is traced as
``fsdp2``, so its shards are in the trace. The update of a partition in place needs no blocks of its
own. The bucket in which gradients are reduced has ``reduce_bucket_size`` elements, two such buckets
if communication overlaps. States on the host are left out. The sizes are those of DeepSpeed 0.16,
``stage_1_and_2.py`` and ``stage3.py``.

Limits. States, copies, gradients and buckets are exact up to the padding of partitions, at most two
elements a rank for each group of weights. That all else is as in PyTorch's own training is a model:
DeepSpeed flattens the weights, and prefetches under stage 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_runtime.fitting.eight_bit_states import FLOAT32_BYTES, with_eight_bit_states
from instances.traces.allocation_trace import AllocationTrace, Role
from planners.text.byte_units import human_bytes

HALF_BYTES = 2
# One direction of PCIe 4.0 with 16 lanes, which has 32e9 on paper; a guess.
BUS_BYTES_PER_SECOND = 25e9


@dataclass(frozen=True)
class StateLayout:
    """The place of weights, gradients and optimizer states: sharded or not, on GPU or host."""

    # DeepSpeed's stage, 0 without DeepSpeed.
    stage: int = 0
    ranks: int = 1
    states_on_host: bool = False
    weights_on_host: bool = False
    in_eight_bits: bool = False
    # True if weights of 16 bits have a copy in float32 among the states.
    has_copies: bool = False
    # Bytes of the buckets in which gradients are reduced.
    buckets: int = 0
    microbatches: int = 1
    # Tensors that the optimizer keeps for each weight.
    states_a_weight: int = 2

    def of(self, trace: AllocationTrace) -> tuple[AllocationTrace, list[str]]:
        """Return a trace of one process with this layout, and lines about it."""
        if self.in_eight_bits:
            return with_eight_bit_states(trace), ["optimizer: replayed with states in 8 bits"]
        if not (self.stage or self.states_on_host):
            return trace, []
        width, roles = trace.element_bytes, trace.role
        is_state, is_gradient = width > 0, roles == Role.GRADIENT
        is_weight = trace.before | (trace.alloc < min(trace.mark_event, default=0))
        # Shards of stage 3 are in the trace.
        shards = self.ranks if self.stage in (1, 2) else 1
        copied = is_state & (width == HALF_BYTES) & self.has_copies
        of_state = FLOAT32_BYTES + FLOAT32_BYTES // self.states_a_weight
        sizes = np.where(copied, trace.size * of_state // HALF_BYTES, trace.size)
        is_shard = is_state | (is_gradient & (self.stage == 2))
        sizes = np.where(is_shard, -(-sizes // shards), sizes)
        on_host = is_state & self.states_on_host
        leaves = on_host | (is_gradient & self.states_on_host & (self.stage > 1))
        leaves = leaves | (is_weight & self.weights_on_host)
        kept = np.flatnonzero(~leaves & (roles != Role.UPDATE))
        lines = [self._line()] if self.stage else []
        if self.states_on_host:
            moved = 2 * int(trace.size[is_state].sum()) // self.states_a_weight // shards
            if self.weights_on_host:
                moved += 2 * self.microbatches * int(trace.size[is_weight].sum())
            lines.append(
                f"{human_bytes(int(sizes[on_host].sum()))} of states on the host: "
                f"{human_bytes(moved)} over the bus each step, "
                f"{moved / BUS_BYTES_PER_SECOND:.2g} s at {BUS_BYTES_PER_SECOND / 1e9:g} GB/s"
            )
        sizes = sizes[kept]
        if self.buckets:  # they live as long as the first weight
            first = int(np.flatnonzero(is_weight | is_state)[:1].sum())
            place = int(np.searchsorted(kept, first))
            kept, sizes = np.insert(kept, place, first), np.insert(sizes, place, self.buckets)
        return trace.of_requests(kept, sizes), lines

    def _line(self) -> str:
        """Return what is exact of the answer, and what is a model."""
        if not self.buckets:
            return "weights, gradients and states on the host: replayed without their shards"
        how = "traced as fsdp2" if self.stage == 3 else "traced as one process, and replayed"
        copies = ", copies in float32 among the states" if self.has_copies else ""
        return (
            f"DeepSpeed's ZeRO stage {self.stage} over {self.ranks} ranks, {how}: the sizes of "
            f"states and gradients are exact{copies}, buckets of {human_bytes(self.buckets)} count "
            f"as weights; the order of requests is a model"
        )
