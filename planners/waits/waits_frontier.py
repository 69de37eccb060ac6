"""The frontier: for each number of waits, the best waits found, their plan, and a lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from planners.judged_run import run
from planners.model.budget import Budget
from planners.model.plan import Result, Status, gap_above
from planners.model.problem import Problem
from planners.processes.interrupt import Interrupt
from planners.waits.wait_proof import WaitProof
from planners.waits.wait_search import WaitSearch
from planners.waits.waiting_streams import WaitingStreams, Waits

PLANNER = "auto"
# Up to so many tensors the bound counts every plan, not only antichains. A guess.
MOST_TENSORS_EXACT = 24
EXACT_PLANNER = "branch-and-bound"
ALL_TRIED = "all-waits-tried"
# After so many failures, each of which takes half of the time left, the proof ends. A guess.
MOST_FAILED = 4


@dataclass(frozen=True, eq=False)
class WaitsPoint:
    """The best plan found with at most so many waits."""

    # The most waits, and those of the plan.
    count: int
    waits: Waits
    # The problem whose graph has these waits, and the judged answer of a planner for it.
    problem: Problem
    result: Result
    # Bytes below which no plan is with so many waits, whichever they are, and what proves it.
    bound: int
    certificate: str

    @property
    def peak(self) -> int:
        """The peak of the plan in bytes."""
        assert self.result.peak is not None
        return self.result.peak

    @property
    def gap(self) -> float | None:
        """``peak / bound - 1``; None if it is infinite."""
        return gap_above(self.peak, self.bound)


class WaitsFrontier:
    """The points of one problem; each is found within the time limit of a budget, thrice.

    The limit holds for the choice of the waits, for each plan, and for the proof of the bound.
    """

    def __init__(self, problem: Problem, budget: Budget) -> None:
        self.streams = WaitingStreams(problem)
        self._budget = budget
        self._search = WaitSearch(self.streams, budget)
        # The waits that are worth a try.
        self.candidates = self._search.candidates
        self._proof = WaitProof(self.streams, self.candidates)
        self._is_small = problem.tensor_count <= MOST_TENSORS_EXACT
        self._best: WaitsPoint | None = None

    def points(
        self,
        counts: Sequence[int],
        on_step: Callable[[int, str], None] = lambda _count, _what: None,
    ) -> Iterator[WaitsPoint]:
        """Yield the point of each number of waits, in rising order.

        If Ctrl-C comes, ``KeyboardInterrupt`` goes on, after the point whose plan it ended.
        """
        for count in counts:
            on_step(count, "waits")
            waits = self._search.best(count)
            on_step(count, PLANNER)
            point = self._planned(count, waits)
            if not Interrupt.has_come():
                on_step(count, "bound")
                point = self._bounded(point)
            self._best = point
            yield point
            if Interrupt.has_come():
                raise KeyboardInterrupt

    def _planned(self, count: int, waits: Waits) -> WaitsPoint:
        """Return the point of some waits, or the plan of fewer waits if that is no worse."""
        least = self.streams.least
        bound, by = (least.bytes, least.name) if count else (self.streams.heaviest, "antichain")
        known = self._best
        if known is not None and (waits == known.waits or known.peak <= bound):
            return replace(known, count=count, bound=bound, certificate=by)
        problem = self.streams.with_waits(waits)
        result = run(problem, EXACT_PLANNER if self._is_small else PLANNER, self._budget)
        if result.lower_bound > bound and not waits and not count:
            bound, by = result.lower_bound, result.certificate
        if known is not None and (result.plan is None or known.peak <= (result.peak or 0)):
            return replace(known, count=count, bound=bound, certificate=by)
        return WaitsPoint(count, waits, problem, result, bound, by)

    def _bounded(self, point: WaitsPoint) -> WaitsPoint:
        """Return the point with a better bound, or with better waits that its proof has found."""
        asked = self._goal(point) - 1
        whole, failed = self._budget.started(), 0
        while asked >= point.bound and failed < MOST_FAILED:
            half = None if whole.time_limit_seconds is None else whole.remaining_seconds() / 2
            budget = replace(whole, time_limit_seconds=half).started()
            try:
                found = self._proof.fitting(asked, point.count, budget, self._has_plan)
            except TimeoutError:
                # Fewer bytes are ruled out sooner.
                asked, failed = (point.bound + asked) // 2, failed + 1
                continue
            if found is None:
                point = replace(point, bound=asked + 1, certificate=ALL_TRIED)
                asked = (asked + self._goal(point)) // 2
            else:
                self._best = point
                better = self._planned(point.count, found)
                point = replace(better, bound=point.bound, certificate=point.certificate)
                reached = point.peak if self._is_small else self.streams.antichain(found)[0]
                asked = min(asked, reached) - 1
        return point

    def _goal(self, point: WaitsPoint) -> int:
        """Return the bytes that only better waits go below: a plan may miss the antichain."""
        return point.peak if self._is_small else self.streams.antichain(point.waits)[0]

    def _has_plan(self, waits: Waits, bytes_: int) -> bool:
        if not self._is_small:
            return True
        problem = self.streams.with_waits(waits).with_capacity(bytes_)
        status = run(problem, EXACT_PLANNER, self._budget).status
        if status not in (Status.OPTIMAL, Status.FEASIBLE, Status.INFEASIBLE):
            raise TimeoutError
        return status is not Status.INFEASIBLE
