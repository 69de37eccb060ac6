"""A recording of iterations of two microbatches, small enough to look at."""

from __future__ import annotations

from instances.traces.allocation_trace import AllocationTrace

# Weights; iterations of two microbatches, each with an activation, freed in the backward pass,
# and a transient request; an update. Phases begin at the marks; every event is one of its own.
ITERATION = 20
MICROBATCHES = ((0, 4), (8, 12))
OPTIMIZER = 16
MARKS = ((0, 0, 0), (4, 1, 0), (8, 0, 1), (12, 1, 1), (16, 2, 1))


def microbatch_trace(iterations: int = 2, varying: int = 0) -> AllocationTrace:
    """Return the trace; transient requests grow by so many bytes from one iteration to the next."""
    size, alloc, freed = [64], [0], [1 + iterations * ITERATION]
    for iteration in range(iterations):
        begin = 1 + iteration * ITERATION
        for forward, backward in MICROBATCHES:
            size += [16, 4 + varying * iteration]
            alloc += [begin + forward + 1, begin + backward + 1]
            freed += [begin + backward + 2, begin + backward + 3]
        size.append(8)
        alloc.append(begin + OPTIMIZER + 1)
        freed.append(begin + OPTIMIZER + 2)
    marks = [
        (1 + iteration * ITERATION + at, phase, microbatch, iteration)
        for iteration in range(iterations)
        for at, phase, microbatch in MARKS
    ]
    event, phase, microbatch, number = (list(column) for column in zip(*marks, strict=True))
    return AllocationTrace(
        iterations * ITERATION + 1, size, alloc, freed, freed,
        address=[1024 * (request + 1) for request in range(len(size))],
        mark_event=event, mark_phase=phase, mark_microbatch=microbatch, mark_iteration=number,
    )  # fmt: skip
