"""A book of plans from an allocation trace, made without the program and without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpu_runtime._core import LogKind, ProgramRecord
from gpu_runtime.allocator.book import Book, plan_book
from gpu_runtime.allocator.book_file import with_roles
from gpu_runtime.allocator.book_problem import LEAST_PEAK
from gpu_runtime.allocator.step_kind import StepKind
from instances.formats.recorded_trace import read_recorded_trace_file
from instances.traces.allocation_trace import AllocationTrace
from planners.errors import InstanceError, errors_at
from planners.model.budget import Budget
from planners.registry import ChosenPlanner

# A plan needs a trace of so many steps.
LEAST_ITERATIONS = 2


def book_of_trace(
    path: Path, planner: ChosenPlanner, budget: Budget, least_peak: int = LEAST_PEAK
) -> Book:
    """Plan all iterations of a trace as steps.

    Parameters
    ----------
    path
        A trace of ``instances.extract trace``. It needs two iterations, because the blocks of one
        may be freed in the next.
    planner, budget
        The planner and its limits.
    least_peak
        Kinds of step that need fewer bytes have no places.

    Raises
    ------
    InstanceError
        The file cannot be read, or has too few iterations.
    GaplessError
        The planner found no plan.
    """
    trace = read_recorded_trace_file(path)
    with errors_at(path):
        if trace.iteration_count < LEAST_ITERATIONS:
            raise InstanceError(
                f"trace: at least {LEAST_ITERATIONS} iterations are needed to see when memory "
                f"ends, found {trace.iteration_count}; trace more with --steps"
            )
    record = ProgramRecord([])
    record.add(log_of_trace(trace), [])
    steps = [kind for kind in map(StepKind.of, record.kinds()) if kind.label >= 0]
    return plan_book(with_roles(steps), planner, budget, least_peak)


def log_of_trace(trace: AllocationTrace) -> NDArray[np.int64]:
    """Return a trace as the log of an allocator, with a step for each iteration.

    A step begins with the first phase of its iteration, and ends at the begin of the next step.
    """
    asked = np.flatnonzero(~trace.is_marker & (trace.size > 0))
    number = np.arange(len(asked))
    freed = np.flatnonzero(trace.freed[asked] < trace.event_count)
    begins = trace.mark_event[np.searchsorted(trace.mark_iteration, trace.iterations)]
    ends = np.append(begins[1:], trace.event_count)
    parts = (
        # Rows of one event come in this order: the end of a step, the begin of the next, frees,
        # then requests.
        (LogKind.REQUEST, 3, trace.alloc[asked], number, asked),
        (LogKind.FREE, 2, trace.freed[asked[freed]], number[freed], asked[freed]),
        (LogKind.STEP_BEGINS, 1, begins, None, None),
        (LogKind.STEP_ENDS, 0, ends, None, None),
    )
    rows, keys = [], []
    for what, turn, event, request, index in parts:
        nothing = np.full(len(event), -1)
        size = np.zeros(len(event)) if index is None else trace.size[index]
        stream = np.zeros(len(event)) if index is None else trace.stream[index]
        number_of = nothing if request is None else request
        columns = [np.full(len(event), int(what)), number_of, size, stream, nothing, nothing]
        rows.append(np.stack(columns, axis=1).astype(np.int64))
        keys.append(np.stack([event, np.full(len(event), turn)], axis=1))
    row, key = np.concatenate(rows), np.concatenate(keys)
    return row[np.lexsort((key[:, 1], key[:, 0]))]
