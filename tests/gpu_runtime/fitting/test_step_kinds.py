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
        ([[1], [2]], False),  # too few to repeat
        ([[1], [2], [2]], False),
        ([[1], [2], [3], [2]], False),
        ([[1], [2], [2], [3]], True),
        ([[1], [2], [1]], False),
        ([[1], [2, 3], [3]], False),  # it has begun only, or makes nothing anew
        ([[1], [2], [2, 3]], True),
        ([[1], [2], [2, 2]], True),
    ],
)
@pytest.mark.parametrize("trains", [False, True])
def test_only_a_new_kind_is_said(steps: list[list[int]], said: bool, trains: bool) -> None:
    """A training ends with an evaluation, which is no kind of step."""
    sizes, alloc, marks, phases, event = [], [], [], [], 0
    for number, step in enumerate([*steps, [99]] if trains else steps):
        backward = [(Phase.BACKWARD, [])] if trains and number < len(steps) else []
        for phase, part in ((Phase.FORWARD, step), *backward, (Phase.OPTIMIZER, [event])):
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
