"""From a trace to a problem of the whole run or of one iteration, and to the reserved bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.traces.allocation_trace import (
    SEGMENT_KINDS,
    AllocationTrace,
    iteration_window,
    persistent_requests,
    resolve_iteration,
)
from instances.traces.dynamic_requests import find_dynamic_requests
from planners.errors import InstanceError
from planners.files.recording_slice import LAST, RecordingSlice, rounding_fault
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Scalar
from planners.model.reference import Reference
from planners.model.rules import MAX_TOTAL_BYTES


def slice_problem(trace: AllocationTrace, recording_slice: RecordingSlice) -> Problem:
    """Return the problem of a slice of a trace: the whole of it, or one iteration."""
    iteration, modules = recording_slice.iteration, recording_slice.dynamic_modules
    persistent, round_to = recording_slice.persistent, recording_slice.round_to
    if iteration is None:
        return whole_problem(trace, persistent=persistent, round_to=round_to)
    return iteration_problem(
        trace, iteration, persistent=persistent, round_to=round_to, dynamic_modules=modules
    )


def whole_problem(trace: AllocationTrace, *, persistent: bool = True, round_to: int = 1) -> Problem:
    """Return the problem of everything a trace holds, from its first event to its last.

    A tensor is a request, markers included, and a step an event. Lifetimes end when the free
    completes, or with the trace. Phases are numbered from 0. No tensor is dynamic, because each
    iteration's requests are here with their own sizes. A block is persistent if it was there before
    the first phase and is never freed.
    """
    marks = trace.mark_event
    first_mark = int(marks[0]) if len(marks) else 0
    was_there = (trace.alloc < first_mark) | trace.before
    chosen = np.arange(trace.request_count)
    if not persistent:
        chosen = np.flatnonzero(~(was_there & (trace.freed == trace.event_count)))
    alloc, freed = trace.alloc[chosen], trace.freed[chosen]
    asked_in = np.searchsorted(marks, alloc, side="right") - 1
    return Problem(
        _rounded(trace.size[chosen], round_to),
        alloc,
        np.maximum(freed, alloc + 1),
        phase_start=np.where(was_there[chosen], -1, asked_in) if len(marks) else None,
        phase_end=_phase_at(marks, freed, trace.event_count) if len(marks) else None,
        layer_start=_if_known(trace, trace.alloc_module[chosen]),
        layer_end=_if_known(trace, trace.free_module[chosen]),
        name=trace.name,
        origin=_origin(trace, (0, trace.event_count), persistent=persistent, round_to=round_to),
    )


def iteration_problem(
    trace: AllocationTrace,
    iteration: int = LAST,
    *,
    persistent: bool = True,
    round_to: int = 1,
    dynamic_modules: Sequence[str] = (),
) -> Problem:
    """Return the problem of one iteration of a trace.

    Lifetimes are cut to the iteration. A block that was there before and outlives the iteration is
    persistent; in most programs these are exactly the weights and the state of the optimizer. The
    first iteration also allocates that state; later iterations are alike.

    Phases of the iteration are numbered from 0; -1 is before it, and the number of phases is after
    it. Layers are indices of modules, where the trace knows them. Sizes are rounded up to multiples
    of `round_to` bytes; PyTorch's allocator takes 512. For `dynamic_modules` see
    :func:`instances.traces.dynamic_requests.find_dynamic_requests`.
    """
    number = resolve_iteration(trace, iteration)
    begin, end = iteration_window(trace, number)
    was_there = (trace.alloc < begin) | trace.before
    needed = (trace.alloc < end) & (trace.freed > begin) & ~trace.is_marker
    if not persistent:
        needed &= ~persistent_requests(trace, number)
    chosen = np.flatnonzero(needed)
    born = np.where(was_there, begin, trace.alloc)[chosen]
    dies = np.minimum(trace.freed[chosen], end)
    # An iteration may have no event except its mark.
    dies = np.maximum(dies, born + 1)
    marks = trace.mark_event[trace.mark_iteration == number]
    return Problem(
        _rounded(trace.size[chosen], round_to),
        born - begin,
        dies - begin,
        phase_start=np.where(was_there[chosen], -1, np.searchsorted(marks, born, side="right") - 1),
        phase_end=_phase_at(marks, trace.freed[chosen], end),
        layer_start=_if_known(trace, trace.alloc_module[chosen]),
        layer_end=_if_known(trace, trace.free_module[chosen]),
        dynamic=find_dynamic_requests(trace, number, dynamic_modules)[chosen],
        name=trace.name,
        origin={
            **_origin(trace, (begin, end), persistent=persistent, round_to=round_to),
            "iteration": number,
        },
    )


def _rounded(size: IntColumn, round_to: int) -> IntColumn:
    fault = rounding_fault(round_to)
    if fault:
        raise InstanceError(f"rounding: {fault}")
    if round_to == 1:
        return size
    for request in np.flatnonzero(size > MAX_TOTAL_BYTES)[:1].tolist():
        raise InstanceError(f"rounding: sizes up to 2**61 bytes are needed, found {size[request]}")
    return -(-size // round_to) * round_to


def _phase_at(marks: IntColumn, event: IntColumn, end: int) -> IntColumn:
    """Return the phase of each event; from `end` on, the number of phases."""
    phase = np.searchsorted(marks, event, side="right") - 1
    return np.where(event >= end, len(marks), phase)


def _if_known(trace: AllocationTrace, modules: IntColumn) -> IntColumn | None:
    return modules if trace.module_names else None


def _origin(
    trace: AllocationTrace, window: tuple[int, int], *, persistent: bool, round_to: int
) -> dict[str, Scalar]:
    """Return the origin, with the reserved bytes if the problem has all blocks that took them."""
    origin: dict[str, Scalar] = {**trace.origin, "persistent": persistent, "round_to": round_to}
    reference = peak_reserved(trace, *window) if persistent else None
    return {**origin, **reference.as_origin()} if reference else origin


# Only PyTorch's allocator records segments, so it made every trace that has them.
ALLOCATOR = "PyTorch"
GROWS = np.array([1 if kind in ("segment_alloc", "segment_map") else -1 for kind in SEGMENT_KINDS])


def peak_reserved(trace: AllocationTrace, begin: int, end: int) -> Reference | None:
    """Return the peak of reserved bytes during some events of a trace, half-open.

    Segments that were reserved earlier and not given back count. None for a trace without segments.
    The trace shows a segment from before it only when that is given back. So if blocks or segments
    were there before, the number is a lower bound and says so.
    """
    if not len(trace.segments):
        return None
    by_event = np.argsort(trace.segments[:, 0], kind="stable")
    event, kind, _, size, _ = trace.segments[by_event].T
    if (size < 0).any() or size.sum(dtype=np.float64) > MAX_TOTAL_BYTES:
        raise InstanceError(
            f"field segments: sizes of at least 0 whose sum stays below 2**61 bytes are needed, "
            f"found {size.min()} to {size.max()} in {len(size)} rows"
        )
    reserved = np.concatenate([[0], np.cumsum(GROWS[kind] * size)])
    from_before = -int(reserved.min())
    first, last = np.searchsorted(event, [begin, end])
    peak = int(reserved[first : last + 1].max()) + from_before
    return Reference(ALLOCATOR, peak, exact=from_before == 0 and not bool(trace.before.any()))
