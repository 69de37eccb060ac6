"""Parts that all other tensors see as one tensor: each is planned alone, then all are combined.

Note [Parts]
~~~~~~~~~~~~
*Definition.* A set of tensors is a part if every tensor outside is unsafe with all of them or
with none (a module of the unsafe graph). If streams run independently for a while, the tensors that
each stream allocates meanwhile are a part.

*Benefit.* With several streams there are no sections of time and no skylines. Orders of first
fit mix the parts, although a hole in one part cannot hold a tensor of another part that runs beside
it. Within a part lifetimes mostly decide safety, so the part has skylines; otherwise it has parts
again. Only a few tensors are left to combine: one for each part, as large as the part's plan, with
their unsafe pairs.

*Cost.* Combining is exact if all parts are unsafe with each other: no two share a byte,
and closing the holes of a plan shows that their peaks add up. Otherwise a part might have to lie
around another one, which a part in one piece cannot. So failure proves nothing.

*Search for parts.* Find the largest parts that do not contain a given tensor, the pivot. Split
all other tensors by whether they are unsafe with the pivot, then by every tensor outside, until
nothing splits. The pivot's own part is found with a second pivot outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planners import _core
from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.search.order_search import OrderSearch
from planners.search.skyline import SkylineBeams
from planners.search.turns import Search, Shared

Unsafe = NDArray[np.bool_]

# Limits the tensors: the search takes a byte for each pair, and scans all pairs repeatedly. A
# guess.
MOST_TENSORS = 3_000
# Limits how deep parts may contain parts. A guess.
MOST_DEPTH = 10
# Limits of the search that combines the parts. Guesses.
ATTEMPTS = 1_000
NODES = 1_000


class Parts(Search):
    """Plans the parts of a problem, by beams if they have skylines, and combines them."""

    name = "parts"
    _root: _Part | None = None

    @classmethod
    def reason_against(cls, problem: Problem) -> str | None:
        if problem.lifetimes_decide:
            return "lifetimes decide what is unsafe"
        if problem.tensor_count > MOST_TENSORS:
            return f"more than {MOST_TENSORS} tensors"
        if problem.contiguous:
            return "tensors are chained"
        free = (problem.alignment == 1).all() and (problem.pinned == NOT_PINNED).all()
        return None if free else "tensors are aligned or pinned"

    def run(self, length: int) -> None:
        """Search for better plans of the parts, if there are any."""
        incumbent = self._incumbent
        if self._root is None:
            problem = incumbent.problem
            unsafe = np.zeros((problem.tensor_count,) * 2, dtype=np.bool_)
            for tensor in range(problem.tensor_count):
                unsafe[tensor, problem.core.unsafe_with(tensor)] = True
            self._root = _Part(problem, unsafe, np.arange(problem.tensor_count), incumbent)
        if len(self._root.children) < incumbent.problem.tensor_count:
            self._root.improve(length, incumbent)
            incumbent.offer(Plan.of(incumbent.problem, self._root.offsets), "parts planned alone")


class _Part:
    """Some tensors, whose safety lifetimes decide, or which consist of parts in turn."""

    def __init__(
        self,
        whole: Problem,
        unsafe: Unsafe,
        tensors: IntColumn,
        incumbent: Incumbent,
        depth: int = 0,
    ) -> None:
        incumbent.require_time()
        self.children: list[_Part] = []
        inside = unsafe[np.ix_(tensors, tensors)]
        start, end = whole.start[tensors], whole.end[tensors]
        if whole.safety is Safety.PAIRS:
            # Lifetimes are unknown. With these, no tensor is unsafe with another.
            start = np.arange(len(tensors), dtype=np.int64)
            end = start + 1
        overlap = (start[:, None] < end) & (start < end[:, None])
        np.fill_diagonal(overlap, val=False)
        self.offsets = np.zeros(len(tensors), dtype=np.int64)
        self.peak = 0
        self._beams: SkylineBeams | None = None
        if (overlap == inside).all():
            self._problem = Problem(whole.size[tensors], start, end)
            return
        self._places = (
            find_parts(inside, incumbent.require_time)
            if depth < MOST_DEPTH
            else np.split(np.arange(len(tensors)), len(tensors))
        )
        self.children = [
            _Part(whole, unsafe, tensors[places], incumbent, depth + 1) for places in self._places
        ]
        first = np.array([places[0] for places in self._places])
        self._pairs = np.argwhere(np.triu(inside[np.ix_(first, first)], 1))

    def improve(self, length: int, whole: Incumbent) -> None:
        """Search for a better plan."""
        if self.children:
            for child in self.children:
                child.improve(length, whole)
            self._put_together(length, whole)
            return
        if self._beams is None:
            self._incumbent = Incumbent(self._problem, whole.budget)
            self._beams = SkylineBeams(Shared(self._incumbent, Portfolio(self._problem)))
        inner, begun = self._incumbent, self._incumbent.count
        inner.budget = replace(whole.budget, node_limit=begun + whole.most(_core.NO_LIMIT - begun))
        if inner.best is None:
            Portfolio(self._problem).run_first(inner)
            inner.ask_for_bounds()
        if not inner.over:
            self._beams.run(length)
        whole.count += inner.count - begun
        self._keep(inner)

    def _put_together(self, length: int, whole: Incumbent) -> None:
        problem = Problem([child.peak for child in self.children], unsafe_pairs=self._pairs)
        budget = replace(whole.budget, node_limit=whole.most(ATTEMPTS * length))
        inner = Incumbent(problem, budget)
        portfolio = Portfolio(problem)
        portfolio.run_first(inner)
        inner.ask_for_bounds()
        if not inner.over:
            OrderSearch(Shared(inner, portfolio)).walk()
        whole.count += inner.count
        assert inner.best is not None
        if not inner.is_decided and whole.most(1):
            budget = replace(whole.budget, node_limit=whole.most(NODES * length))
            found = branch_and_bound(problem, budget, inner.best)
            whole.count += budget.node_limit or 0
            inner.take(found, "exact search")
        self._keep(inner)

    def _keep(self, inner: Incumbent) -> None:
        """Keep a plan of the part, or of its parts, if it is better than the former one."""
        assert inner.best is not None
        if self.peak and inner.best.peak >= self.peak:
            return
        self.peak = inner.best.peak
        if not self.children:
            self.offsets = inner.best.offsets
            return
        floors = inner.best.offsets.tolist()
        for places, child, floor in zip(self._places, self.children, floors, strict=True):
            self.offsets[places] = floor + child.offsets


def find_parts(unsafe: Unsafe, poll: Callable[[], None] = lambda: None) -> list[IntColumn]:
    """Split all tensors into parts."""
    tensors = np.arange(len(unsafe))
    if not len(tensors):
        return []
    parts = _parts_without(unsafe, 0, poll)
    # None of these contains the first tensor's own part; a pivot outside of that part finds it.
    outside = int(max(parts, key=len, default=tensors)[0])
    own = [part for part in _parts_without(unsafe, outside, poll) if 0 in part] or [tensors[:1]]
    rest = [part for part in parts if not np.isin(part, own[0]).any()]
    single = np.setdiff1d(tensors, np.concatenate([*own, *rest]))
    return [*own, *rest, *np.split(single, len(single))] if len(single) else [*own, *rest]


def _parts_without(unsafe: Unsafe, pivot: int, poll: Callable[[], None]) -> list[IntColumn]:
    """Return the largest parts that do not contain the pivot."""
    others = np.delete(np.arange(len(unsafe)), pivot)
    label = unsafe[pivot, others].astype(np.int64)
    count = 0
    while len(others) and label.max() + 1 != count:
        count = int(label.max()) + 1
        for place, tensor in enumerate(others.tolist()):
            poll()
            split = 2 * label + (unsafe[tensor, others] & (label != label[place]))
            label = np.unique(split, return_inverse=True)[1]
    return [others[label == part] for part in range(count)]
