"""The frontier: for each limit, the lower bound on extra time, and what every planner finds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planners.entry_points import load_group
from planners.first_use import at_first_use
from planners.model.budget import Budget
from planners.model.plan import Status
from planners.processes.interrupt import Interrupt
from planners.recompute.limit_planner import (
    LIMIT_PLANNERS,
    LimitPlanner,
    LimitQuestion,
    load_built_in,
)
from planners.recompute.limit_result import LimitResult, run_under_limit
from planners.recompute.repeatable_step import RepeatableStep
from planners.recompute.staged_relaxation import StagedBound, staged_bound

# Installed packages offer budget planners in this group of entry points, as modules to import.
ENTRY_POINT_GROUP = "gapless.recompute"


@at_first_use
def load_planners() -> None:
    """Register, once, our planners and those of installed packages."""
    load_built_in()
    for _ in load_group(ENTRY_POINT_GROUP, "budget planner package"):
        pass  # importing it registers its planners


def choose_planners(patterns: str | None = None) -> list[LimitPlanner]:
    """Return the planners that names or wildcards, separated by commas, choose.

    Without any these are all but those that run only if they are named.
    """
    load_planners()
    if patterns is None:
        return [planner for planner in LIMIT_PLANNERS.values() if planner.by_default]
    parts = LIMIT_PLANNERS.patterns_of(patterns)
    return list(dict.fromkeys(each for part in parts for each in LIMIT_PLANNERS.matching(part)))


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """One limit: the bound, and the result of each planner.

    Parameters
    ----------
    limit
        Bytes.
    bound
        Lower bound on the seconds of second runs.
    bound_seconds
        Wall time of the bound.
    results
        In the order of the planners.
    """

    limit: int
    bound: StagedBound
    bound_seconds: float
    results: list[LimitResult]

    @property
    def best(self) -> LimitResult | None:
        """The valid result with the fewest seconds more."""
        valid = [r for r in self.results if r.status in (Status.OPTIMAL, Status.FEASIBLE)]
        return min(valid, key=lambda result: result.extra_seconds, default=None)

    @property
    def least_seconds(self) -> float:
        """The best lower bound that anybody has proven."""
        return max([self.bound.seconds, *(result.least_seconds for result in self.results)])


def frontier(
    step: RepeatableStep,
    limits: Sequence[int],
    planners: Sequence[LimitPlanner],
    budget: Budget,
    on_result: Callable[[LimitResult], None] = lambda _result: None,
) -> Iterator[FrontierPoint]:
    """Ask every planner at every limit.

    If Ctrl-C comes, the point that is not complete is yielded before ``KeyboardInterrupt`` goes on.

    Parameters
    ----------
    step
        The step to keep within the limits.
    limits
        Bytes each.
    planners
        As :func:`choose_planners` returns them.
    budget
        Limits of one planner at one limit, and of one bound.
    on_result
        Called with each result.
    """
    for limit in limits:
        started = time.perf_counter()
        bound = staged_bound(step, limit, budget.started())
        bound_seconds = time.perf_counter() - started
        point = FrontierPoint(limit, bound, bound_seconds, [])
        try:
            for planner in planners:
                question = LimitQuestion(step, limit, budget, bound)
                result = run_under_limit(question, planner, point.results)
                point.results.append(result)
                on_result(result)
                if result.interrupted or Interrupt.has_come():
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            if point.results:
                yield point
            raise
        yield point


def step_gap(step: RepeatableStep, extra_seconds: float, least_seconds: float) -> float | None:
    """Return how much longer the step takes than the bound says, as a part; None if unknown."""
    if not np.isfinite(extra_seconds) or not np.isfinite(least_seconds):
        return None
    # Rounding may leave the time below the bound, and a step without work takes no time.
    more = max(0.0, extra_seconds - least_seconds)
    least = step.seconds + least_seconds
    return more / least if least else None if more else 0.0
