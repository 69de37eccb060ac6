"""A last step of a kind that was not seen before is said."""

from __future__ import annotations

import pytest

from gpu_runtime.fitting.step_kinds import notes_on_kinds
from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.event_log import number_phases


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([], False),
        ([[1], [2]], False),  # the first one makes states
        ([[1], [2], [2]], False),
        ([[1], [2], [3], [2]], False),
        ([[1], [2], [2], [3]], True),
        ([[1], [2], [1]], True),
        ([[1], [2, 3], [2]], False),  # it has begun only
        ([[1], [2], [2, 3]], True),
    ],
)
def test_only_a_new_kind_is_said(steps: list[list[int]], said: bool) -> None:
    sizes, alloc, marks, phases, event = [], [], [], [], 0
    for step in steps:
        for phase, part in ((Phase.FORWARD, step), (Phase.OPTIMIZER, [event])):
            marks.append(event)
            phases.append(phase)
            for size in part:
                event += 1
                sizes.append(size)
                alloc.append(event)
            event += 1
    microbatch, iteration = number_phases(phases)
    trace = AllocationTrace(
        event + 1, sizes, alloc, [event + 1] * len(sizes), [event + 1] * len(sizes),
        mark_event=marks, mark_phase=phases, mark_microbatch=microbatch, mark_iteration=iteration,
    )  # fmt: skip
    found = notes_on_kinds(trace)
    assert found == [f"step {len(steps)} is unlike those before it: steps that were not traced may "
                     f"need more; trace more by --steps"] * said  # fmt: skip
