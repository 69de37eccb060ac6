"""Dynamic requests: those that another iteration of the same program makes with another size.

Note: how two iterations are compared
-------------------------------------
Rationale. A program whose shapes depend on data, such as a mixture of experts, requests other
sizes at the same point of each iteration, and more or fewer of them. A recording does not say
which requests of two iterations correspond.

Approach. Phase by phase, requests of equal module and size are paired, the n-th with the n-th, if
both phases have equally many of them. The longest subsequence of pairs that ascends on both sides
is kept. Between two kept pairs, equal requests are paired from the left, then from the right. A
request without a partner is dynamic. This takes O(n log n); an exact longest common subsequence of
25,000 requests would take minutes.

Limits. A dynamic request that by chance has the same size in every iteration counts as static, as
do all requests of an iteration that is compared with no other. `dynamic_modules` names modules that
are known to be dynamic. An iteration is compared with the nearest `MAX_COMPARED` iterations only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from instances.traces.alignment import ascending_pairs
from instances.traces.allocation_trace import AllocationTrace, iteration_phases
from planners.model.columns import BoolColumn, IntColumn

MAX_COMPARED = 64
NO_PARTNER = -1


def find_dynamic_requests(
    trace: AllocationTrace, iteration: int, modules: Sequence[str] = ()
) -> BoolColumn:
    """Tell which requests of an iteration vary from iteration to iteration.

    The first iteration allocates the state of the optimizer and is not compared with later ones. At
    least two later iterations are needed for a comparison. Requests in a module whose name matches
    a pattern, such as ``"*.experts.*"``, are dynamic without comparison. The result has an entry
    for each request of the whole trace, false outside the iteration.
    """
    dynamic = np.zeros(trace.request_count, dtype=np.bool_)
    inside = iteration_phases(trace, iteration)
    for other in _compared_with(trace, iteration):
        counterparts = iteration_phases(trace, other)
        for phase, requests in enumerate(inside):
            there = counterparts[phase] if phase < len(counterparts) else requests[:0]
            partner = find_partners(_keys(trace, requests), _keys(trace, there))
            dynamic[requests[partner == NO_PARTNER]] = True
    matching = [any(fnmatchcase(name, pattern) for pattern in modules)
                for name in trace.module_names]  # fmt: skip
    if any(matching):
        in_module = np.array([*matching, False])[trace.alloc_module]
        for requests in inside:
            dynamic[requests] |= in_module[requests]
    return dynamic


def _compared_with(trace: AllocationTrace, iteration: int) -> list[int]:
    """Return the numbers of the iterations with which an iteration is compared."""
    later = trace.iterations[(trace.iterations > 0) & (trace.iterations != iteration)]
    if iteration == 0:
        return []
    nearest = np.argsort(np.abs(later - iteration), kind="stable")[:MAX_COMPARED]
    return [int(number) for number in later[np.sort(nearest)]]


def find_partners(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> IntColumn:
    """Return the partner of each entry of a sequence in a second, similar sequence.

    Partners ascend; -1 stands for none.
    """
    partner = np.full(len(ours), NO_PARTNER, dtype=np.int64)
    last_ours, last_theirs = -1, -1
    for at, there in [*ascending_pairs(ours, theirs), (len(ours), len(theirs))]:
        left, right = last_ours + 1, last_theirs + 1
        while left < at and right < there and ours[left] == theirs[right]:
            partner[left] = right
            left, right = left + 1, right + 1
        stop, back = at - 1, there - 1
        while stop >= left and back >= right and ours[stop] == theirs[back]:
            partner[stop] = back
            stop, back = stop - 1, back - 1
        if at < len(ours):
            partner[at] = there
        last_ours, last_theirs = at, there
    return partner


def _keys(trace: AllocationTrace, requests: IntColumn) -> list[tuple[int, int]]:
    modules = trace.alloc_module[requests].tolist()
    return list(zip(modules, trace.size[requests].tolist(), strict=True))
