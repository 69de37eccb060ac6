"""From a trace to a problem: the whole of it, or one iteration."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.traces.allocation_trace import AllocationTrace
from instances.traces.dynamic_requests import find_dynamic_requests
from instances.traces.iterations import iteration_window, resolve_iteration
from planners.columns import IntColumn
from planners.errors import InstanceError
from planners.problem import Problem

LAST = -1


def whole_problem(trace: AllocationTrace) -> Problem:
    """Return the problem of everything a trace holds, from its first event to its last.

    Parameters
    ----------
    trace
        Any.

    Returns
    -------
    Problem
        A tensor a request, markers included, in the order of allocation; a step is an event.
        Lifetimes end where the device is done, or with the trace.
    """
    return Problem(
        trace.size,
        trace.alloc,
        np.maximum(trace.freed, trace.alloc + 1),
        name=trace.name,
        origin=dict(trace.origin),
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

    Lifetimes are cut to the iteration. What was there before and outlives it is persistent:
    weights, state of the optimizer, and in most programs not a byte more.

    Parameters
    ----------
    trace
        With marks.
    iteration
        From 0, or from the end where negative. The first one also makes the optimizer's state;
        from the second on iterations are alike.
    persistent
        Whether persistent blocks are tensors of the problem.
    round_to
        Sizes are rounded up to multiples of this many bytes; PyTorch's allocator takes 512.
    dynamic_modules
        Patterns of modules whose requests are dynamic, see
        :func:`instances.traces.dynamic_requests.find_dynamic_requests`.

    Returns
    -------
    Problem
        Tensors in the order of allocation. ``phase_start`` and ``phase_end`` number the phases of
        the iteration from 0; -1 is before it, and the number of phases is after it. ``layer_start``
        and ``layer_end`` are indices of modules, where the trace knows them.

    Raises
    ------
    InstanceError
        The trace has no such iteration, or the rounding is below 1.
    """
    if round_to < 1:
        raise InstanceError(f"rounding: sizes are multiples of at least 1 byte, found {round_to}")
    number = resolve_iteration(trace, iteration)
    begin, end = iteration_window(trace, number)
    was_there = (trace.alloc < begin) | trace.before
    needed = (trace.alloc < end) & (trace.freed > begin) & ~trace.is_marker
    if not persistent:
        needed &= ~(was_there & (trace.freed >= end))
    chosen = np.flatnonzero(needed)
    born = np.where(was_there, begin, trace.alloc)[chosen]
    dies = np.minimum(trace.freed[chosen], end)
    # A window may hold no event but its mark.
    dies = np.maximum(dies, born + 1)
    modules_known = len(trace.module_names) > 0
    return Problem(
        -(-trace.size[chosen] // round_to) * round_to,
        born - begin,
        dies - begin,
        phase_start=np.where(was_there[chosen], -1, _phase_of(trace, number, born)),
        phase_end=_phase_of(trace, number, trace.freed[chosen], end),
        layer_start=trace.alloc_module[chosen] if modules_known else None,
        layer_end=trace.free_module[chosen] if modules_known else None,
        dynamic=find_dynamic_requests(trace, number, dynamic_modules)[chosen],
        name=trace.name,
        origin={
            **trace.origin,
            "iteration": number,
            "persistent": persistent,
            "round_to": round_to,
        },
    )


def _phase_of(
    trace: AllocationTrace, iteration: int, event: IntColumn, end: int | None = None
) -> IntColumn:
    """Phase in which an event happens; beyond `end`, the number of phases."""
    begins = trace.mark_event[trace.mark_iteration == iteration]
    phase = np.searchsorted(begins, event, side="right") - 1
    return phase if end is None else np.where(event >= end, len(begins), phase)
