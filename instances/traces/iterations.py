"""Iterations of a trace: where one begins and ends, and what is asked for in its phases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError
from planners.model.columns import BoolColumn, IntColumn
from planners.text.plain_text import shown


def iteration_window(trace: AllocationTrace, iteration: int) -> tuple[int, int]:
    """Return the events of an iteration, half-open; -1 is the last iteration.

    From its first mark to the first of the next, or to the end of the trace.
    """
    number = resolve_iteration(trace, iteration)
    begin = int(trace.mark_event[np.searchsorted(trace.mark_iteration, number)])
    after = int(np.searchsorted(trace.mark_iteration, number, side="right"))
    is_last = after == len(trace.mark_event)
    return begin, trace.event_count if is_last else int(trace.mark_event[after])


def resolve_iteration(trace: AllocationTrace, iteration: int) -> int:
    """Return the number of an iteration that may be counted from the end, where negative."""
    there = trace.iterations
    if not len(there):
        raise InstanceError(
            "the trace marks no phases, so its iterations are not known; take the whole trace"
        )
    if -len(there) <= iteration < 0:
        return int(there[iteration])
    if iteration not in there:
        without_gaps = there[-1] - there[0] == len(there) - 1
        known = f"{there[0]} to {there[-1]}" if without_gaps else shown(there.tolist())
        raise InstanceError(
            f"iteration {iteration}: the trace has the iterations {known} (or -1 for the last, -2 "
            f"for the one before)"
        )
    return iteration


def persistent_requests(trace: AllocationTrace, iteration: int) -> BoolColumn:
    """Tell which blocks were there before an iteration and outlive it."""
    begin, end = iteration_window(trace, iteration)
    persistent: BoolColumn = ((trace.alloc < begin) | trace.before) & (trace.freed >= end)
    return persistent


def iteration_phases(trace: AllocationTrace, iteration: int) -> list[IntColumn]:
    """Return the requests that are allocated in each phase of an iteration, markers left out."""
    number = resolve_iteration(trace, iteration)
    begins = trace.mark_event[trace.mark_iteration == number]
    bounds = [*begins.tolist(), iteration_window(trace, number)[1]]
    first = np.searchsorted(trace.alloc, bounds)
    asked = [np.arange(a, b) for a, b in pairwise(first.tolist())]
    return [requests[~trace.is_marker[requests] & ~trace.before[requests]] for requests in asked]
