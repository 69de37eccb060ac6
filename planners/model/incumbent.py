"""The incumbent: the best plan of many attempts, the planner that found it, and proven bounds."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from planners.model.bounds import (
    SHARE_FOR_BOUNDS,
    Bound,
    best_bound_of,
    bounds_are_known,
    bounds_so_far,
)
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar

# Time that a large problem needs beside the placement loop, which checks the time itself: sorting
# keys and freeing an attempt's memory. At most SHARE_KEPT of the time left is reserved for it.
# Guesses.
SECONDS_A_BLOCK = 1e-6
SHARE_KEPT = 0.2


class Incumbent:
    """Keeps the best plan of many attempts, even if the time limit or Ctrl-C ends one."""

    def __init__(self, problem: Problem, budget: Budget, target: int | None = None) -> None:
        self.problem = problem
        self.budget = budget
        self._target = target
        self._bound: Bound | None = None
        # The bytes that a search has proven, and the name of that search. The goal uses the bounds
        # alone.
        self._proven, self._certificate = 0, ""
        self.best: Plan | None = None
        self.found_by = ""
        self.count = 0
        self._begun = time.perf_counter()
        self._history: list[tuple[float, int]] = []

    @property
    def bound(self) -> Bound:
        """The largest lower bound known so far."""
        if self._bound is None:
            self._bound = max(bounds_so_far(self.problem), key=lambda bound: bound.bytes)
        return self._bound

    @property
    def goal(self) -> int:
        """The peak in bytes at which the search may stop."""
        return self.bound.bytes if self._target is None else self._target

    @property
    def bounds_are_known(self) -> bool:
        """Return True if no bound is left to compute."""
        return bounds_are_known(self.problem)

    def ask_for_bounds(self) -> None:
        """Spend a share of the time left on bounds that are not known yet."""
        seconds = SHARE_FOR_BOUNDS * self.budget.remaining_seconds()
        self._bound = best_bound_of(self.problem, seconds)

    @property
    def over(self) -> bool:
        """Return True if the best plan meets the goal, no plan can, or no attempt or time is left.

        Every loop of a search asks this before its next step. The first attempt is always allowed,
        so that there is a plan.
        """
        if self.best is None:
            return False
        return self.is_decided or self.most(1) == 0 or not self.has_room_for_an_order

    @property
    def is_decided(self) -> bool:
        """Return True if the best plan meets the goal, or no plan can."""
        if self.best is not None and self.best.peak <= max(self.goal, self._proven):
            return True
        known = 0 if self._bound is None else self._bound.bytes
        return self._target is not None and max(known, self._proven) > self._target

    @contextmanager
    def leaving(self, seconds: float, attempts: int = 0) -> Iterator[None]:
        """Reserve seconds and attempts for later: the code inside gets a smaller budget."""
        whole = self.budget
        limit = whole.node_limit
        self.budget = replace(
            whole,
            deadline=whole.deadline - seconds,
            node_limit=None if limit is None else max(self.count, limit - attempts),
        )
        try:
            yield
        except TimeoutError:
            # Only the reduced budget is spent; the code that follows finds out whether time is
            # left.
            if whole.deadline == math.inf:
                raise
        finally:
            self.budget = whole

    @property
    def has_room_for_an_order(self) -> bool:
        """Return True if the time left suffices to compute an order."""
        return self.budget.remaining_seconds() > self.problem.blocks.count * SECONDS_A_BLOCK

    def require_time(self) -> None:
        """Raise ``TimeoutError`` if the time left does not suffice to compute an order."""
        if not self.has_room_for_an_order:
            raise TimeoutError("the time limit leaves no room for another order")

    @property
    def attempt_budget(self) -> Budget:
        """The budget of one attempt: what is left, less the time that freeing memory takes."""
        left = self.budget.remaining_seconds()
        if left == math.inf:
            return self.budget
        kept = min(SHARE_KEPT * left, self.problem.blocks.count * SECONDS_A_BLOCK)
        return replace(self.budget, deadline=self.budget.deadline - kept)

    def most(self, count: int) -> int:
        """Return how many of ``count`` attempts the node limit still allows."""
        limit = self.budget.node_limit
        return count if limit is None else max(0, min(count, limit - self.count))

    def offer(self, plan: Plan, found_by: str) -> None:
        """Keep a plan if it is better than the best so far."""
        if self.best is None or plan.peak < self.best.peak:
            self.best, self.found_by = plan, found_by
            self.tell(time.perf_counter(), plan.peak)

    def take(self, found: Findings, found_by: str) -> None:
        """Offer the plan of another search, and pass on a Ctrl-C that ended the search."""
        if found.plan is not None:
            self.offer(found.plan, found_by)
        if found.interrupted:
            raise KeyboardInterrupt

    def tell(self, when: float, peak: int) -> None:
        """Record for the anytime curve when, by ``time.perf_counter``, a peak was reached."""
        if not self._history or peak < self._history[-1][1]:
            self._history.append((when - self._begun, peak))

    def prove(self, lower_bound: int, certificate: str) -> None:
        """Keep a lower bound in bytes that a search proved."""
        if lower_bound > self._proven:
            self._proven, self._certificate = lower_bound, certificate

    def exhaust(self, certificate: str) -> None:
        """Note that a search is exhausted: no plan is better, or none meets the target."""
        assert self.best is not None
        least = self.best.peak if self._target is None else self._target + 1
        self.prove(least, certificate)

    def findings(
        self,
        reason: str = "",
        statistics: Mapping[str, Scalar] | None = None,
        *,
        interrupted: bool = False,
    ) -> Findings:
        """Return the plan, the bound, and the reason why the search ended without a proof."""
        if not (reason or self.is_decided or self.has_room_for_an_order):
            reason = "time limit"
        bound, certificate = self.bound.bytes, self.bound.name
        if self._proven > bound:
            bound, certificate = self._proven, self._certificate
        if self.best is not None:
            if bound == self.best.peak:
                reason = ""
            elif self._target is not None and bound <= self._target < self.best.peak:
                reason = reason or "the search ended before it found a plan that fits"
        return Findings(
            self.best,
            bound,
            certificate,
            reason,
            interrupted,
            statistics or {},
            incumbents=tuple(self._history),
        )
