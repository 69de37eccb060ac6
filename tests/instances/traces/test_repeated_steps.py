"""A part of a run, again and again."""

from __future__ import annotations

import numpy as np
import pytest

from instances.traces.allocation_trace import AllocationTrace
from instances.traces.repeated_steps import (
    last_microbatch,
    repeat_last_microbatch,
    repeat_steps,
)
from planners import InstanceError, Problem
from planners.files.recording_slice import LAST, RecordingSlice
from planners.model.problem_fields import liveness
from tests.instances.traces.microbatch_trace import microbatch_trace

# Weights, an activation of each microbatch, a gradient that the second one makes, an update:
#
#   update                 . . . . . u
#   gradient               . . . g g g
#   second microbatch      . . b b . .
#   first microbatch       a a . . . .
#   weights                w w w w w w
#   step                   0 1 2 3 4 5
#   phase                  0 0 1 1 1 2
PROBLEM = Problem(
    size=[8, 4, 3, 2, 1],
    start=[0, 0, 2, 3, 5],
    end=[6, 2, 4, 6, 6],
    phase_start=[-1, 0, 1, 1, 2],
    phase_end=[3, 0, 1, 3, 3],
    dynamic=[False, False, True, False, False],
)


def test_the_second_microbatch_comes_three_times() -> None:
    longer = repeat_steps(PROBLEM, 2, 5, times=3)
    assert longer.size.tolist() == [8, 4, 3, 2, 3, 3, 1]
    assert longer.start.tolist() == [0, 0, 2, 3, 5, 8, 11]
    assert longer.end.tolist() == [12, 2, 4, 12, 7, 10, 12]
    assert longer.phase_start is not None
    assert longer.phase_end is not None
    assert longer.dynamic is not None
    assert longer.phase_start.tolist() == [-1, 0, 1, 1, 2, 3, 4]
    assert longer.phase_end.tolist() == [5, 0, 1, 5, 2, 3, 5]
    assert longer.dynamic.tolist() == [False, False, True, False, True, True, False]
    assert longer.name == "problem-x3"
    assert longer.origin["times"] == 3


def test_one_repetition_changes_nothing() -> None:
    same = repeat_steps(PROBLEM, 2, 5, times=1)
    for field in ("size", "start", "end", "phase_start", "phase_end", "dynamic"):
        assert getattr(same, field).tolist() == getattr(PROBLEM, field).tolist()


def test_lifetimes_alone_will_do() -> None:
    longer = repeat_steps(Problem([1, 2], [0, 1], [1, 2]), 1, 2, times=2)
    assert longer.start.tolist() == [0, 1, 2]
    assert longer.phase_start is None


def test_live_bytes_repeat() -> None:
    # What is made in the steps and outlives them is made once, in the first repetition.
    steps, live = liveness(repeat_steps(PROBLEM, 2, 5, times=2))
    profile = dict(zip(steps.tolist(), live.tolist(), strict=True))
    assert profile == {0: 12, 2: 11, 3: 13, 4: 10, 5: 13, 7: 10, 8: 11, 9: 0}
    assert np.max(live) == 13


@pytest.mark.parametrize(("begin", "end", "times"), [(2, 2, 1), (3, 2, 1), (2, 3, 0)])
def test_there_must_be_something_to_repeat(begin: int, end: int, times: int) -> None:
    with pytest.raises(InstanceError, match=f"the steps {begin} to {end}, {times} times"):
        repeat_steps(PROBLEM, begin, end, times)


def test_the_last_microbatch_ends_with_the_optimizer() -> None:
    trace = microbatch_trace()
    assert last_microbatch(trace) == (8, 16)
    once, twice = (repeat_last_microbatch(trace, RecordingSlice(LAST), each) for each in (1, 2))
    assert twice.tensor_count == once.tensor_count + 2


def test_a_trace_without_an_optimizer_has_no_last_microbatch() -> None:
    trace = microbatch_trace()
    for_ever = AllocationTrace(
        trace.event_count, trace.size, trace.alloc, trace.free_requested, trace.freed,
        mark_event=[1, 5], mark_phase=[0, 1], mark_microbatch=[0, 0], mark_iteration=[0, 0],
    )  # fmt: skip
    with pytest.raises(InstanceError, match=r"found phases \[0, 1\]"):
        last_microbatch(for_ever)
    with pytest.raises(InstanceError, match="found all of them"):
        last_microbatch(trace, None)
