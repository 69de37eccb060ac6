"""A profile with foresight: the static requests of a run, and the life times of dynamic ones.

Note: what foresight knows
--------------------------
Rationale. A run under STWeaver knows one profiled iteration and its own past. How much more could
be saved if it knew itself is a bound, up to what best fit misses, and is not STWeaver.

Approach. A request is static if both the profiled iteration and the one before make it: requests
of one module and size are paired in their order, phase by phase. The requests of every iteration
are paired with the static ones of the profiled iteration in the same way. A dynamic request may lie
where the static plan is idle, from the first event of the layer that allocates it to the last event
of the layer that frees it, as profiled. Without modules the static events around the request stand
for layers: from the last one before the request to the first one after its free.

Limits. Pairing sees an iteration as a whole, and the layer that frees a request is read from its
free: no run knows either. A request that by chance has one size in both profiled iterations counts
as static. The caching allocator serves a request that outlives its iteration but does not live from
the begin of the next to its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from planners.model.columns import BoolColumn, IntColumn
from planners.model.problem import Problem
from planners.model.request_sequence import NOWHERE, RequestSequence

# The first iteration makes the optimizer's state, so the second one is profiled.
PROFILED_ITERATION = 1
# PyTorch rounds requests up to a multiple of this.
PLACE_BYTES = 512
NO_TENSOR = -1
NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class StaticProfile:
    """The static requests of a run as a problem, and the role of each request of the run."""

    # The tensors are requests of the profiled iteration, or from before the first one. The steps
    # are the rows before the first iteration, then the rows of the profiled one.
    static: Problem
    # For each request of the run the tensor whose place it takes, -1 for none.
    tensor: IntColumn
    # For each request the steps ``[begin, end)`` of a dynamic one; empty for a static one.
    span: IntColumn


def profile_static_requests(requests: RequestSequence) -> StaticProfile | None:
    """Return the profile of a run, from its second iteration and the first.

    None if there are no two iterations, or nothing is static. Static requests belong to the stream
    that makes most of them: streams that share a pool would have to wait for each other.
    """
    if len(requests.iteration_rows) <= PROFILED_ITERATION or not len(requests.phase):
        return None
    run = ProfiledRun(requests)
    profiled = run.phases(PROFILED_ITERATION)
    is_static = run.earlier() >= 0
    static, chosen = static_problem(requests, run, is_static)
    if not len(chosen):
        return None
    tensor = np.full(requests.request_count, NO_TENSOR, dtype=np.int64)
    tensor[chosen] = np.arange(len(chosen))
    span = np.zeros((requests.request_count, 2), dtype=np.int64)
    visits = layer_visits(requests, run)
    for iteration in range(len(requests.iteration_rows)):
        if iteration != PROFILED_ITERATION:
            for ours, theirs in zip(run.phases(iteration), profiled, strict=False):
                planned = theirs[is_static[theirs]]
                partner = run.partners(ours, planned)
                found = partner >= 0
                tensor[ours[found]] = tensor[planned[partner[found]]]
        dynamic = np.concatenate([NOTHING, *run.phases(iteration)])
        dynamic = dynamic[tensor[dynamic] == NO_TENSOR]
        span[dynamic] = static_spans(run, static, tensor, dynamic, iteration)
        if visits is not None:
            span[dynamic] = visits.spans(requests, run, dynamic, span[dynamic])
    return StaticProfile(static, tensor, span)


class ProfiledRun:
    """The rows at which each request is made and freed, and the requests of each phase."""

    def __init__(self, requests: RequestSequence) -> None:
        self.made, self.freed = requests.allocation_rows, requests.completion_rows
        streams, count = np.unique(requests.stream, return_counts=True)
        self.is_poolable: BoolColumn = requests.stream == streams[count.argmax()]
        self._requests = requests
        # Number of rows before the first iteration, and between them and the profiled one.
        self.setup = int(requests.iteration_rows[0])
        self.skipped = int(requests.iteration_rows[PROFILED_ITERATION]) - self.setup
        self._bounds = [*requests.iteration_rows.tolist(), requests.row_count]
        modules = requests.module[self.made] if len(requests.module) else np.zeros_like(self.made)
        self._keys = list(zip(modules.tolist(), requests.size.tolist(), strict=True))

    def window(self, iteration: int) -> tuple[int, int]:
        """Return the rows of an iteration, half-open."""
        return self._bounds[iteration], self._bounds[iteration + 1]

    def phases(self, iteration: int) -> list[IntColumn]:
        """Return the requests of each phase that are freed within the iteration."""
        begin, end = self.window(iteration)
        first, last = np.searchsorted(self.made, [begin, end])
        inside = np.arange(first, last)
        inside = inside[(self.freed[first:last] < end) & self.is_poolable[first:last]]
        phase = self._requests.phase[self.made[inside]]
        cuts = np.searchsorted(phase, np.arange(int(phase.max(initial=-1)) + 2))
        return [inside[a:b] for a, b in pairwise(cuts.tolist())]

    def earlier(self) -> IntColumn:
        """Return each profiled request's partner in the iteration before, -1 for none."""
        earlier = np.full(len(self.made), -1, dtype=np.int64)
        phases = (self.phases(PROFILED_ITERATION - before) for before in (0, 1))
        for ours, theirs in zip(*phases, strict=False):
            partner = self.partners(ours, theirs)
            found = partner >= 0
            earlier[ours[found]] = theirs[partner[found]]
        return earlier

    def partners(self, ours: IntColumn, theirs: IntColumn) -> IntColumn:
        """Return the index among `theirs` of the partner of each request, -1 for none."""
        sides = ([self._keys[request] for request in side.tolist()] for side in (ours, theirs))
        # Imported here because other replays do without the package.
        from instances.traces.dynamic_requests import find_partners

        return find_partners(*sides)


@dataclass(frozen=True, eq=False)
class LayerVisits:
    """The first and the last step in which a module allocates or frees, phase by phase."""

    phase_count: int
    first: IntColumn
    last: IntColumn

    def spans(
        self, requests: RequestSequence, run: ProfiledRun, dynamic: IntColumn, otherwise: IntColumn
    ) -> IntColumn:
        """Return the steps from the begin of the allocating layer to the end of the freeing one."""
        made, freed = run.made[dynamic], run.freed[dynamic]
        known = (requests.module[made] != NOWHERE) & (requests.module[freed] != NOWHERE)
        first = self.first[_visit(requests, made, self.phase_count)]
        last = self.last[_visit(requests, freed, self.phase_count)]
        # A layer that the profile lacks has no time.
        first = np.where(first > last, 0, first)
        last = np.where(first > last, first, last + 1)
        return np.where(known[:, None], np.column_stack([first, last]), otherwise)


def layer_visits(requests: RequestSequence, run: ProfiledRun) -> LayerVisits | None:
    if requests.module.max(initial=NOWHERE) == NOWHERE:
        return None
    begin, end = run.window(PROFILED_ITERATION)
    phases = int(requests.phase.max()) + 1
    modules = int(requests.module.max()) + 1
    rows = begin + np.flatnonzero(requests.module[begin:end] != NOWHERE)
    visit = _visit(requests, rows, phases)
    first = np.full(modules * phases, end, dtype=np.int64)
    last = np.full(modules * phases, -1, dtype=np.int64)
    np.minimum.at(first, visit, rows - run.skipped)
    np.maximum.at(last, visit, rows - run.skipped)
    return LayerVisits(phases, first, last)


def _visit(requests: RequestSequence, rows: IntColumn, phases: int) -> IntColumn:
    # The number is below 0 outside of modules, and means nothing there.
    return requests.module[rows] * phases + requests.phase[rows]


def static_spans(
    run: ProfiledRun, static: Problem, tensor: IntColumn, dynamic: IntColumn, iteration: int
) -> IntColumn:
    """Return the steps from the static event before each request to the one after its free."""
    begin, end = run.window(iteration)
    first, last = np.searchsorted(run.made, [begin, end])
    inside = first + np.flatnonzero(tensor[first:last] != NO_TENSOR)
    before = np.full(end - begin, run.setup, dtype=np.int64)
    after = np.full(end - begin, int(static.end.max(initial=0)), dtype=np.int64)
    for rows, steps in ((run.made, static.start), (run.freed, static.end)):
        row = rows[inside] - begin
        within = row < end - begin
        step = steps[tensor[inside]]
        before[row[within]] = step[within]
        after[row[within]] = step[within]
    before = np.maximum.accumulate(before)
    after = np.minimum.accumulate(after[::-1])[::-1]
    made, freed = run.made[dynamic] - begin, run.freed[dynamic] - begin
    # A static free may come later than profiled; a span still has at least one step.
    upper = np.maximum(after[freed], before[freed] + 1)
    return np.column_stack([before[made], upper])


def static_problem(
    requests: RequestSequence, run: ProfiledRun, is_static: BoolColumn, *, lasting: bool = True
) -> tuple[Problem, IntColumn]:
    """Return the problem of the static requests, and the request of each of its tensors.

    With `lasting` memory from before the iteration is static as well.
    """
    setup, skipped = run.setup, run.skipped
    begin, end = run.window(PROFILED_ITERATION)
    lasts = (run.made < begin) & (run.freed >= end)
    before = (lasts | (run.freed <= setup)) & run.is_poolable
    chosen = np.flatnonzero(is_static | before if lasting else is_static)
    made, freed = run.made[chosen], run.freed[chosen]
    # Lasting blocks are made before the first iteration, or in it, as the optimizer's state is.
    start = np.where(made < setup, made, np.maximum(made, begin) - skipped)
    phase_count = int(requests.phase[begin:end].max(initial=0)) + 1
    rows = np.minimum(freed, requests.row_count - 1)
    problem = Problem(
        -(-requests.size[chosen] // PLACE_BYTES) * PLACE_BYTES,
        start,
        np.where(freed <= setup, freed, np.minimum(freed, end) - skipped),
        alignment=np.full(len(chosen), PLACE_BYTES),
        phase_start=np.where(lasts[chosen], NOWHERE, requests.phase[made]),
        phase_end=np.where(lasts[chosen], phase_count, requests.phase[rows]),
        name=f"{requests.name}, static",
    )
    return problem, chosen
