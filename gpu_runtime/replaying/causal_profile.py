"""What STWeaver learns from one iteration of a run, and where later requests stand in it.

Note: static and dynamic requests
---------------------------------
Rationale. STWeaver's profiler marks the requests of dynamic layers. The paper also takes the layer
that frees a dynamic request as known when the request is made. A recording has no such marks, and a
run knows its profile and its past.

Approach. A visit is a module within a phase. The profile is the second iteration; the first one
tells which requests vary. Requests of one module and size are paired in their order, phase by
phase. A visit with an unpaired request is dynamic. In a dynamic visit the requests of one size are
static only if all of them are paired and all are freed in one visit; the others are dynamic. A
dynamic request of the run may lie where the plan is idle from the first layer to the last layer
that profiled requests of its visit and size lived in. A size that the profile lacks has the time of
its whole visit. A module that the profile lacks, such as an expert without tokens, has the time of
the nearest module around it.

A run need not tell every module apart: each costs hooks. Order and size alone tell which static
request one is, if no dynamic request around it has its size. And a dynamic request loses little by
the time of the module around its own, if that is not much longer. So a module counts as the one
around it where, phase by phase, no size is static in one of them and dynamic in the other, and its
dynamic requests get at most an eighth of the iteration more time. Requests of up to 512 bytes are
left aside. In the recorded mixtures 40 of 1,008 modules or fewer are told apart, all experts of a
layer counting as one, and what is reserved is the same within 0.1 %.

Limits. The first iteration makes the optimizer's state; its other requests have to be those of the
second. A dynamic request whose size is static in its visit takes the place of a static one. Without
modules each phase is one visit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gpu_runtime._core import StweaverProfile
from gpu_runtime.replaying.static_profile import (
    NO_TENSOR,
    PLACE_BYTES,
    PROFILED_ITERATION,
    ProfiledRun,
    layer_visits,
    static_problem,
    static_spans,
)
from planners.dynamic.idle_space import idle_space
from planners.model.columns import BoolColumn, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.model.request_sequence import NOWHERE, RequestSequence

# In place of a size: the requests of every other size.
ANY_SIZE = 0
# The share of an iteration by which the time of a dynamic request may grow if its module counts as
# the one around it. A guess: the backward pass of one layer of six or more.
MOST_GROWTH = 1 / 8
Number = TypeVar("Number", int, IntColumn)
Key = tuple[int, int]
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class CausalProfile:
    """The static requests of a profiled iteration, and the times of its dynamic ones."""

    # The tensors are requests, with their steps, as in StaticProfile.
    static: Problem
    # The module that each module counts as; -1 for none.
    counts_as: IntColumn
    # One row ``(visit, bytes)`` a tensor.
    keys: IntColumn
    # The tensors in the order in which requests of a key take their places.
    order: IntColumn
    # The steps ``[begin, end)`` in which dynamic requests of a visit and size live.
    spans: dict[Key, Span]
    stream: int
    visit_count: int

    @property
    def modules(self) -> IntColumn:
        """The modules that a run tells apart."""
        return np.flatnonzero(self.counts_as == np.arange(len(self.counts_as)))

    def visits_of_rows(self, requests: RequestSequence) -> IntColumn:
        """Return the number of the visit of each row of the profiled run."""
        return _visits_of_rows(requests, self.counts_as)

    def planned(self, plan: Plan, *, reuse: bool = True) -> StweaverProfile:
        """Return the profile with a plan of its static requests, without dynamic space if asked."""
        keys = [*self.spans] if reuse else []
        times = np.array([self.spans[key] for key in keys], dtype=np.int64).reshape(-1, 2)
        space, begins, intervals = idle_space(self.static, plan, times)
        return StweaverProfile(
            plan.peak,
            self.stream,
            self.visit_count,
            np.column_stack([self.keys, plan.offsets])[self.order],
            np.column_stack([np.array(keys, dtype=np.int64).reshape(-1, 2), space]),
            begins.tolist(),
            intervals,
        )


def _visits_of_rows(requests: RequestSequence, counts_as: IntColumn) -> IntColumn:
    """Return the number of each row's visit: its module and phase, both of which may be none."""
    module = requests.module if len(requests.module) else np.full(requests.row_count, NOWHERE)
    # No module has number -1, which is the last entry.
    module = np.append(counts_as, NOWHERE)[module]
    return visit_number(requests.phase, module, len(counts_as))


def visit_number(phase: Number, module: Number, modules: int) -> Number:
    """Return the number of the visit of a module, of so many; phase and module are -1 for none."""
    return (phase + 1) * (modules + 1) + module + 1


def profile_iteration(requests: RequestSequence, *, lasting: bool = True) -> CausalProfile | None:
    """Return the profile of the second iteration; None without two of them, or static requests.

    Without `lasting` only requests that begin and end in the iteration are static.
    """
    if len(requests.iteration_rows) <= PROFILED_ITERATION or not len(requests.phase):
        return None
    run = ProfiledRun(requests)
    each = np.arange(_modules(requests))
    visit = _visits_of_rows(requests, each)
    begin, end = run.window(PROFILED_ITERATION)
    first, last = np.searchsorted(run.made, [begin, end])
    inside = first + np.flatnonzero(run.is_poolable[first:last])
    earlier = run.earlier()
    is_static = np.zeros(requests.request_count, dtype=np.bool_)
    short = inside[run.freed[inside] < end]
    is_static[short] = _static(requests, run, visit, short, earlier)
    static, chosen = static_problem(requests, run, is_static, lasting=lasting)
    if not len(chosen):
        return None
    tensor = np.full(requests.request_count, NO_TENSOR, dtype=np.int64)
    tensor[chosen] = np.arange(len(chosen))
    made = run.made[chosen]
    # Requests of the first iteration take the places first: its order counts.
    taken = np.where(earlier[chosen] >= 0, run.made[earlier[chosen]], made)
    dynamic = inside[tensor[inside] == NO_TENSOR]
    times = _times(requests, run, static, tensor, dynamic)
    counts_as = _counts_as(requests, run, chosen, dynamic, times)
    visit = _visits_of_rows(requests, counts_as)
    return CausalProfile(
        static,
        counts_as,
        np.column_stack([visit[made], requests.size[chosen]]),
        np.argsort(taken, kind="stable"),
        _spans(requests, run, dynamic, times, counts_as),
        int(requests.stream[inside[0]]) if len(inside) else 0,
        (int(requests.phase.max()) + 2) * (_modules(requests) + 1),
    )


class _ModuleRequests:
    """The requests of a module, or of several that are not told apart."""

    def __init__(self) -> None:
        # Phases and sizes, and the time of the dynamic ones of a phase.
        self.static: set[Key] = set()
        self.dynamic: set[Key] = set()
        self.times: dict[int, Span] = {}

    def fits(self, around: _ModuleRequests, most_growth: int) -> bool:
        """Return whether the module may count as the one around it."""
        for phase, (begin, end) in self.times.items():
            first, last = around.times.get(phase, (begin, end))
            if max(last, end) - min(first, begin) > end - begin + most_growth:
                return False
        return self.static.isdisjoint(around.dynamic) and self.dynamic.isdisjoint(around.static)

    def add(self, other: _ModuleRequests) -> None:
        self.static |= other.static
        self.dynamic |= other.dynamic
        for phase, span in other.times.items():
            _widen(self.times, phase, span)


def _counts_as(
    requests: RequestSequence,
    run: ProfiledRun,
    static: IntColumn,
    dynamic: IntColumn,
    times: IntColumn,
) -> IntColumn:
    """Return for each module the nearest one, from itself on, that is told apart; -1 for none."""
    counts = np.arange(_modules(requests))
    if not requests.module_names:
        return counts
    its: dict[int, _ModuleRequests] = defaultdict(_ModuleRequests)
    for module, key in _keys(requests, run, static):
        its[module].static.add(key)
    for (module, key), span in zip(_keys(requests, run, dynamic), times.tolist(), strict=True):
        # The smallest requests, such as a loss, fit beside the pool.
        if key[1] > PLACE_BYTES:
            its[module].dynamic.add(key)
            _widen(its[module].times, key[0], span)
    numbers = {name: module for module, name in enumerate(requests.module_names)}
    begin, end = run.window(PROFILED_ITERATION)
    most_growth = int(MOST_GROWTH * (end - begin))
    # Modules around others come first.
    for name in sorted(numbers, key=lambda name: name.count(".")):
        module = numbers[name]
        nearest = next((numbers[its] for its in _names_around(name) if its in numbers), None)
        around = NOWHERE if nearest is None else int(counts[nearest])
        if its[module].fits(its[around], most_growth):
            counts[module] = around
            its[around].add(its[module])
    return counts


def _keys(
    requests: RequestSequence, run: ProfiledRun, chosen: IntColumn
) -> Iterator[tuple[int, Key]]:
    """Yield the module of each request, with its phase and size."""
    rows = run.made[chosen]
    columns = (requests.module[rows], requests.phase[rows], requests.size[chosen])
    for module, phase, size in zip(*(column.tolist() for column in columns), strict=True):
        yield module, (phase, size)


def _modules(requests: RequestSequence) -> int:
    return max(len(requests.module_names), int(requests.module.max(initial=NOWHERE)) + 1)


def _static(
    requests: RequestSequence,
    run: ProfiledRun,
    visit: IntColumn,
    inside: IntColumn,
    earlier: IntColumn,
) -> BoolColumn:
    """Return for each request that begins and ends in the iteration whether it is static."""
    is_paired = earlier[inside] >= 0
    made_in = visit[run.made[inside]]
    is_dynamic = np.isin(made_in, made_in[~is_paired])
    # Where the requests of a key end, in both iterations; -1 for one that is not paired.
    rows = np.append(visit, -1)
    ends: dict[Key, set[int]] = defaultdict(set)
    keys = list(zip(made_in.tolist(), requests.size[inside].tolist(), strict=True))
    ours, theirs = rows[run.freed[inside]], rows[run.freed[earlier[inside]]]
    for key, its, other in zip(keys, ours.tolist(), theirs.tolist(), strict=True):
        ends[key].update((its, other))
    for key, paired in zip(keys, is_paired.tolist(), strict=True):
        if not paired:
            ends[key].update((-1, -2))
    is_one = np.array([len(ends[key]) == 1 for key in keys], dtype=np.bool_)
    found: BoolColumn = is_paired & (~is_dynamic | is_one)
    return found


def _times(
    requests: RequestSequence,
    run: ProfiledRun,
    static: Problem,
    tensor: IntColumn,
    dynamic: IntColumn,
) -> IntColumn:
    """Return the steps ``[begin, end)`` that each dynamic request may live in."""
    _, end = run.window(PROFILED_ITERATION)
    # A request that outlives the iteration has all its time.
    times = np.tile([run.setup, int(static.end.max(initial=0))], (len(dynamic), 1))
    times[:, 1] = np.maximum(times[:, 1], times[:, 0] + 1)
    within = np.flatnonzero(run.freed[dynamic] < end)
    short = dynamic[within]
    times[within] = static_spans(run, static, tensor, short, PROFILED_ITERATION)
    layers = layer_visits(requests, run)
    if layers is not None:
        times[within] = layers.spans(requests, run, short, times[within])
    return times


def _spans(
    requests: RequestSequence,
    run: ProfiledRun,
    dynamic: IntColumn,
    times: IntColumn,
    counts_as: IntColumn,
) -> dict[Key, Span]:
    """Return the time of each visit and size, and of each visit of the program."""
    places = len(counts_as) + 1
    spans: dict[Key, Span] = {}
    around: dict[tuple[int, str], Span] = {}
    visits = _visits_of_rows(requests, counts_as)[run.made[dynamic]]
    each = zip(visits.tolist(), requests.size[dynamic].tolist(), times.tolist(), strict=True)
    names = ("", *requests.module_names)
    for visit, size, (begin, until) in each:
        _widen(spans, (visit, size), (begin, until))
        _widen(spans, (visit, ANY_SIZE), (begin, until))
        if requests.module_names:
            phase, module = divmod(visit, places)
            for name in _names_around(names[module]):
                _widen(around, (phase, name), (begin, until))
    lacking: dict[Key, Span] = {}
    for phase in sorted({phase for phase, _ in around}):
        for module, name in enumerate(names[1:]):
            found = (around[phase, its] for its in _names_around(name) if (phase, its) in around)
            span = next(found, None)
            if span is not None:
                visit = phase * places + int(counts_as[module]) + 1
                _widen(lacking, (visit, ANY_SIZE), span)
    return lacking | spans


def _widen(spans: dict[Any, Span], key: Hashable, span: Span) -> None:
    begin, end = spans.get(key, span)
    spans[key] = min(begin, span[0]), max(end, span[1])


def _names_around(name: str) -> Iterator[str]:
    """Return the names of the modules that hold one, from the nearest on."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name
