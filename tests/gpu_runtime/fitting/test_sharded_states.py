"""States that are sharded or on the host, against sums by hand and DeepSpeed's own formula."""

from __future__ import annotations

import pytest

from gpu_runtime.fitting.sharded_states import StateLayout
from instances.traces.allocation_trace import AllocationTrace, Phase, Role

WEIGHT, GRADIENT, FIRST, SECOND, UPDATE = range(5)
ELEMENTS = 1000


def step(width: int) -> AllocationTrace:
    """Return one step of a weight: its gradient, two states and what the update allocates."""
    size = ELEMENTS * width
    roles = [Role.NONE, Role.GRADIENT, Role.STATE, Role.STATE, Role.UPDATE]
    ends = [12, 9, 12, 12, 8]
    return AllocationTrace(
        12, [size] * 5, [0, 3, 5, 6, 7], ends, ends, role=roles,
        element_bytes=[0, 0, width, width, 0], mark_event=[2, 3, 4],
        mark_phase=[Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER],
        mark_microbatch=[0, 0, 0], mark_iteration=[0, 0, 0],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "sizes"),
    [
        # Of 16 bits: a copy, and two states, all of 32 bits, of one of 4 ranks; buckets first.
        (StateLayout(1, 4, has_copies=True, buckets=50), [50, 2000, 2000, 1500, 1500]),
        (StateLayout(2, 4, has_copies=True, buckets=50), [50, 2000, 500, 1500, 1500]),
        (StateLayout(2, 4, True, has_copies=True, buckets=50), [50, 2000]),
        # Shards of stage 3 are in the trace.
        (StateLayout(3, 4, has_copies=True), [2000, 2000, 6000, 6000]),
        (StateLayout(3, 4, True, True), []),
        (StateLayout(states_on_host=True), [2000, 2000]),
        (StateLayout(), [2000] * 5),
    ],
)
def test_blocks_have_the_sizes_of_their_shards(layout: StateLayout, sizes: list[int]) -> None:
    found, _ = layout.of(step(2))
    assert found.size.tolist() == sizes


def test_a_rank_has_what_the_stages_are_known_for() -> None:
    """Of each weight in 16 bits: 2 bytes, 2 of its gradient, and 12 of its states."""
    for stage, per_weight in ((1, 2 + 2 + 12 / 8), (2, 2 + 2 / 8 + 12 / 8)):
        found, _ = StateLayout(stage, 8, has_copies=True).of(step(2))
        assert found.size.sum() == per_weight * ELEMENTS


@pytest.mark.parametrize(("width", "moved"), [(2, "3.906 KiB"), (4, "7.812 KiB")])
def test_states_on_the_host_cost_gradients_down_and_weights_up(width: int, moved: str) -> None:
    _, (line,) = StateLayout(states_on_host=True).of(step(width))
    assert f"of states on the host: {moved} over the bus each step" in line
    _, lines = StateLayout(3, 2, True, True, microbatches=3).of(step(width))
    # The weights as well, for each forward and each backward pass.
    assert f"{(2 + 6) * ELEMENTS * width / 1024:.5g}"[:4] in lines[-1]
