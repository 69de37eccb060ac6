"""The peer: the PyPI package omnimalloc, whose allocators plan the problems they can express."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evaluation.peers.plain_lifetimes import PlainLifetimes, refuse_features, require_lifetimes
from planners.errors import MissingDependencyError
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, feasible, infeasible, no_plan_found, optimal
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError

SUPERMALLOC = "supermalloc"
# Number of the allocation that stands for no tensor; see Peer._fit.
STOPPER = -1

# omnimalloc's Allocation: the package is optional, and mypy does not look into it.
Allocation = Any


def require_omnimalloc() -> None:
    """Make sure that the peer is installed."""
    try:
        import omnimalloc  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"this study compares with omnimalloc ({error})", "bench"
        ) from None


def require_expressible(problem: Problem) -> None:
    """Refuse a problem that the peer's allocations cannot express."""
    require_lifetimes(problem, "omnimalloc")
    aligned = bool((problem.alignment > 1).any())
    refuse_features(problem, "omnimalloc", {"an alignment above 1": aligned})


def to_allocations(problem: Problem) -> tuple[Allocation, ...]:
    """Return the tensors of a problem as the peer's allocations, numbered alike; pins are offsets.

    Tensors without bytes are left out, because the peer refuses them. Time begins at 0, because the
    peer has no negative steps.
    """
    require_omnimalloc()
    require_expressible(problem)
    from omnimalloc import Allocation

    begun = int(problem.start.min(initial=0))
    columns = (problem.size, problem.start - begun, problem.end - begun, problem.pinned)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        Allocation(tensor, size, start, end, None if pin == NOT_PINNED else pin)
        for tensor, (size, start, end, pin) in enumerate(rows)
        if size
    )


@dataclass(frozen=True)
class Placed:
    """The answer of an allocator of the peer."""

    # Allocations with offsets, in any order; None if the allocator found no placement.
    allocations: Sequence[Allocation] | None
    # In bytes; 0 unless the allocator searches.
    lower_bound: int = 0
    # True if the search ended before its time limit, and so proved its answer.
    exhausted: bool = False


@dataclass(frozen=True)
class Peer:
    """One allocator of omnimalloc, and its budget."""

    # Name in omnimalloc's registry, such as ``greedy_by_size``.
    allocator: str
    # Time limit, threads and seed, as far as the allocator takes them. None as time limit means
    # no limit, even if the allocator has a default.
    budget: Budget = field(default_factory=Budget)

    def allocations_of(self, problem: Problem) -> tuple[Allocation, ...]:
        """Return the tensors of a problem as this allocator takes them."""
        allocations = to_allocations(problem)
        if not self._allocator().supports(allocations):
            raise UnsupportedProblemError(
                f"{problem.name}: omnimalloc's {self.allocator} moves pinned tensors"
            )
        return allocations

    def run(self, allocations: tuple[Allocation, ...], capacity: int | None = None) -> Placed:
        """Place allocations; only ``supermalloc`` looks at the capacity."""
        import omnimalloc

        omnimalloc.set_max_threads(self.budget.threads)
        allocator = self._allocator()
        if self.allocator != SUPERMALLOC:
            return Placed(allocator.allocate(allocations))
        if capacity is not None:
            return self._fit(allocations, capacity)
        found = allocator.solve(allocations)
        return Placed(found.allocations, found.lower_bound, found.proved_optimal)

    def result(self, problem: Problem, placed: Placed) -> Result:
        """Return a placement as the result of a problem, not judged yet."""
        if placed.allocations is None:
            if placed.exhausted:
                return infeasible(self.allocator, "its search below the capacity ended")
            return no_plan_found("the time limit passed", placed.lower_bound, self.allocator)
        offsets = np.zeros(problem.tensor_count, dtype=np.int64)
        for allocation in placed.allocations:
            offsets[allocation.id] = allocation.offset
        plan = Plan.of(problem, offsets)
        if self.allocator != SUPERMALLOC:
            return feasible(plan)
        if placed.exhausted:
            return optimal(plan, self.allocator)
        return feasible(plan, placed.lower_bound, self.allocator)

    def _allocator(self) -> Any:
        from omnimalloc.allocators import BaseAllocator

        kind = BaseAllocator.get(self.allocator)
        settings = {
            "timeout": self.budget.time_limit_seconds,
            "num_threads": self.budget.threads,
            "seed": self.budget.seed,
        }
        known = inspect.signature(kind.__init__).parameters
        return kind(**{name: value for name, value in settings.items() if name in known})

    def _fit(self, allocations: tuple[Allocation, ...], capacity: int) -> Placed:
        """Ask supermalloc's solver once whether a placement fits the capacity.

        The allocator takes no capacity, so this method calls its parts as the allocator does.

        Note: after a placement that fits, the solver goes on until it meets its lower bound or its
        time limit, and no setting stops it. So it gets one more allocation, as large as the
        capacity and alive after all others. This allocation conflicts with no other one, and it
        raises the lower bound to the capacity: the first placement that fits ends the search.
        """
        from omnimalloc import Allocation, _cpp
        from omnimalloc.allocators.supermalloc import DEFAULT_HEURISTICS, GREEDY_HEURISTICS

        begun, limit = time.monotonic(), self.budget.time_limit_seconds

        def remaining() -> float | None:
            return None if limit is None else max(0.0, begun + limit - time.monotonic())

        lower_bound = _cpp.Partition.from_allocations(allocations).lower_bound
        if lower_bound > capacity:
            return Placed(None, lower_bound, exhausted=True)
        if not allocations:
            return Placed(allocations)
        last = max(allocation.end for allocation in allocations)
        stopper = Allocation(STOPPER, capacity, last, last + 1)
        base = _cpp.Partition.from_allocations((*allocations, stopper))
        searched = ["".join(heuristic) for heuristic in DEFAULT_HEURISTICS]
        packed = ["".join(heuristic) for heuristic in GREEDY_HEURISTICS]
        greedy = _cpp.greedy_pack_portfolio(
            base, [*searched, "", *packed], remaining(), self.budget.threads
        )
        if greedy.peak <= capacity:
            return Placed(_without_stopper(greedy.allocations), lower_bound)
        left = remaining()
        if left == 0:
            return Placed(None, lower_bound)
        bound = capacity + 1  # bounds of the solver are exclusive
        found = _cpp.try_solve_many(
            [base.reorder(heuristic).with_bound(bound) for heuristic in searched],
            bound,
            None,
            canonical=True,
            dominance=True,
            floor_inference=True,
            monotonic_floor=True,
            decompose=True,
            timeout=left,
            num_threads=self.budget.threads,
        )
        if found is None:
            # The solver returns None after a proof and at its time limit: time left means a proof.
            return Placed(None, lower_bound, exhausted=remaining() != 0)
        return Placed(_without_stopper(found.allocations), lower_bound)


def plan_by_omnimalloc(lifetimes: PlainLifetimes, allocator: str, budget: Budget) -> Plan:
    """Return the plan of an allocator, in units; the budget limits an allocator that searches."""
    peer, problem = Peer(allocator, budget), lifetimes.in_units()
    found = peer.result(problem, peer.run(peer.allocations_of(problem)))
    if found.plan is None:
        raise TimeoutError(found.reason)
    return lifetimes.plan(found.plan.offsets.tolist())


def _without_stopper(allocations: Sequence[Allocation]) -> Sequence[Allocation]:
    return [allocation for allocation in allocations if allocation.id != STOPPER]
