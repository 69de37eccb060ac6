"""Two traces of one program side by side: counts, bytes, peaks, and each differing request."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from instances.traces.alignment import differing_ranges
from instances.traces.allocation_trace import (
    AllocationTrace,
    Phase,
    iteration_phases,
    persistent_requests,
    resolve_iteration,
)
from instances.traces.trace_problem import iteration_problem
from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem_fields import liveness


@dataclass(frozen=True)
class IterationFigures:
    """One iteration in four numbers."""

    # Allocations, markers left out.
    requests: int
    requested_bytes: int
    # Most bytes alive at once, persistent ones included.
    peak_bytes: int
    # Bytes of blocks that live before the iteration and after it.
    persistent_bytes: int


@dataclass(frozen=True)
class RequestDifference:
    """Requests at one place of two traces that differ."""

    # Phase of the iteration.
    phase: Phase
    # Bytes of each request of the one trace and of the other.
    first: tuple[int, ...]
    second: tuple[int, ...]


def iteration_figures(trace: AllocationTrace, iteration: int = -1) -> IterationFigures:
    """Return the figures of an iteration."""
    phases = iteration_phases(trace, iteration)
    _, live = liveness(iteration_problem(trace, iteration))
    lasting = persistent_requests(trace, iteration)
    return IterationFigures(
        requests=sum(map(len, phases)),
        requested_bytes=sum(int(trace.size[requests].sum()) for requests in phases),
        peak_bytes=int(live.max(initial=0)),
        persistent_bytes=int(trace.size[lasting].sum()),
    )


def live_after_allocations(trace: AllocationTrace, iteration: int = -1) -> IntColumn:
    """Return the live bytes right after each allocation of an iteration."""
    asked = np.concatenate(iteration_phases(trace, iteration))
    counted = ~trace.is_marker
    change = np.zeros(trace.event_count + 1, dtype=np.int64)
    np.add.at(change, trace.alloc[counted], trace.size[counted])
    np.add.at(change, trace.freed[counted], -trace.size[counted])
    return np.cumsum(change)[trace.alloc[asked]]


def find_differences(
    first: AllocationTrace, second: AllocationTrace, iteration: int = -1
) -> Counter[RequestDifference]:
    """Align the requested sizes of two traces, phase by phase, and return the differences."""
    sides = [_phases(trace, iteration) for trace in (first, second)]
    if [phase for phase, _ in sides[0]] != [phase for phase, _ in sides[1]]:
        counts = " and ".join(str(len(side)) for side in sides)
        raise InstanceError(
            f"two iterations of the same phases can be compared, found {counts} phases or another "
            f"order; trace with as many microbatches"
        )
    differences: Counter[RequestDifference] = Counter()
    for (phase, ours), (_, theirs) in zip(*sides, strict=True):
        for here, there in differing_ranges(ours, theirs):
            asked = tuple(ours[at] for at in here), tuple(theirs[at] for at in there)
            differences[RequestDifference(phase, *asked)] += 1
    return differences


def _phases(trace: AllocationTrace, iteration: int) -> list[tuple[Phase, list[int]]]:
    number = resolve_iteration(trace, iteration)
    kinds = trace.mark_phase[trace.mark_iteration == number].tolist()
    asked = iteration_phases(trace, number)
    return [
        (Phase(kind), trace.size[requests].tolist())
        for kind, requests in zip(kinds, asked, strict=True)
    ]
