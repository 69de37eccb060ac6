"""Longer runs made from recorded ones: a part of an iteration, such as a microbatch, repeated."""

from __future__ import annotations

import numpy as np

from instances.traces.allocation_trace import (
    AllocationTrace,
    Phase,
    iteration_window,
    resolve_iteration,
)
from instances.traces.trace_problem import slice_problem
from planners.errors import InstanceError
from planners.files.recording_slice import LAST, RecordingSlice
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def repeat_steps(problem: Problem, begin: int, end: int, times: int) -> Problem:
    """Return a problem in which the steps from `begin` to `end` come several times in a row.

    Tensors that live within these steps come in every repetition. All others come once: tensors
    alive at `end` live through the further repetitions, and later tensors are shifted. The problem
    has lifetimes alone, the steps are half-open, and a phase should begin at either end. One time
    changes nothing. Tensors are in the order of their starts.
    """
    if not begin < end or times < 1:
        raise InstanceError(
            f"repetition: at least one step and one time are needed, found the steps {begin} to "
            f"{end}, {times} times"
        )
    within = (problem.start >= begin) & (problem.end <= end)
    copy = np.concatenate(
        [np.zeros(problem.tensor_count, dtype=np.int64),
         np.repeat(np.arange(1, times), int(within.sum()))]
    )  # fmt: skip
    tensor = np.concatenate(
        [np.arange(problem.tensor_count), np.tile(np.flatnonzero(within), times - 1)]
    )
    length = end - begin
    extra = (times - 1) * length
    start = problem.start[tensor] + np.where(problem.start[tensor] < end, copy * length, extra)
    stop = problem.end[tensor] + np.where(problem.end[tensor] > end, extra, copy * length)
    order = np.argsort(start, kind="stable")
    repeated = _repeated_phases(problem, begin, end)

    def phases_of(column: IntColumn | None) -> IntColumn | None:
        if column is None or repeated is None:
            return None
        phase = column[tensor]
        later = np.where(phase >= repeated.stop, times - 1, copy)
        shifted: IntColumn = phase + len(repeated) * later
        return shifted[order]

    return Problem(
        problem.size[tensor][order],
        start[order],
        stop[order],
        phase_start=phases_of(problem.phase_start),
        phase_end=phases_of(problem.phase_end),
        dynamic=None if problem.dynamic is None else problem.dynamic[tensor][order],
        name=f"{problem.name}-x{times}",
        origin={**problem.origin, "repeated_from": begin, "repeated_to": end, "times": times},
    )


def repeat_last_microbatch(
    trace: AllocationTrace, recording_slice: RecordingSlice, times: int
) -> Problem:
    """Return an iteration whose last microbatch comes several times in a row."""
    begin, end = last_microbatch(trace, recording_slice.iteration)
    return repeat_steps(slice_problem(trace, recording_slice), begin, end, times)


def last_microbatch(trace: AllocationTrace, iteration: int | None = LAST) -> tuple[int, int]:
    """Return the half-open steps of the last microbatch, up to the optimizer, in its iteration."""
    if iteration is None:
        raise InstanceError(f"{trace.name}: one iteration has a last microbatch, found all of them")
    number = resolve_iteration(trace, iteration)
    first, _ = iteration_window(trace, number)
    its = trace.mark_iteration == number
    event, phase = trace.mark_event[its] - first, trace.mark_phase[its]
    forward = event[phase == Phase.FORWARD]
    optimizer = event[phase == Phase.OPTIMIZER]
    if not len(forward) or not len(optimizer) or forward[-1] >= optimizer[-1]:
        raise InstanceError(
            f"{trace.name}: a forward pass before an optimizer is needed, found phases "
            f"{phase.tolist()}"
        )
    return int(forward[-1]), int(optimizer[-1])


def _repeated_phases(problem: Problem, begin: int, end: int) -> range | None:
    """Return the phases that allocate a tensor in these steps; None without phases."""
    if problem.phase_start is None:
        return None
    inside = problem.phase_start[(problem.start >= begin) & (problem.start < end)]
    return range(int(inside.min()), int(inside.max()) + 1) if len(inside) else range(0)
