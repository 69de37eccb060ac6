"""Many orders, one after the other: the best plan of all, and what found it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from planners.bounds import Bound
from planners.budget import Budget
from planners.greedy.place import place_blocks
from planners.plan import Plan, Result, feasible, optimal
from planners.problem import Problem, Scalar

# What a large problem needs besides the placement loop, which watches the time: to compute and sort
# keys, and to free what an attempt built. At most a fifth of the time that is left is kept for it.
SECONDS_A_BLOCK = 1e-6
SHARE_KEPT = 0.2


class Attempts:
    """Places blocks in one order after another and keeps the best plan.

    Whoever holds it has the best plan at any time, also where the time limit or Ctrl-C ends an
    attempt.

    Parameters
    ----------
    problem
        What is planned.
    goal
        Bytes that are good enough: a lower bound, or a capacity.
    budget
        Its clock runs. ``node_limit`` counts attempts.
    """

    def __init__(self, problem: Problem, goal: int, budget: Budget) -> None:
        self.problem = problem
        self.goal = goal
        self.budget = budget
        self.best: Plan | None = None
        self.found_by = ""
        self.count = 0

    @property
    def over(self) -> bool:
        """Whether the best plan is good enough, or no attempt is left.

        The first attempt is always left, so that there is a plan.
        """
        if self.best is None:
            return False
        return self.best.peak <= self.goal or self.most(1) == 0

    def require_time(self) -> None:
        """Raise where not even an order can be computed in the time that is left.

        Raises
        ------
        TimeoutError
            Too little time is left.
        """
        if self.budget.remaining_seconds() <= self.problem.blocks.count * SECONDS_A_BLOCK:
            raise TimeoutError("the time limit leaves no room for another order")

    def _placement_budget(self) -> Budget:
        """Return the budget less the time that it takes to clean up."""
        left = self.budget.remaining_seconds()
        if left == math.inf:
            return self.budget
        kept = min(SHARE_KEPT * left, self.problem.blocks.count * SECONDS_A_BLOCK)
        return replace(self.budget, deadline=self.budget.deadline - kept)

    def most(self, count: int) -> int:
        """Return how many of so many attempts are left."""
        limit = self.budget.node_limit
        return count if limit is None else max(0, min(count, limit - self.count))

    def offer(self, plan: Plan, found_by: str) -> None:
        """Keep a plan if it is better than the best so far.

        Parameters
        ----------
        plan
            Valid.
        found_by
            What found it.
        """
        if self.best is None or plan.peak < self.best.peak:
            self.best, self.found_by = plan, found_by

    def place(
        self,
        blocks: NDArray[np.integer],
        name: str,
        fit: str = "first",
        *,
        objects: bool = False,
        only_goal: bool = False,
    ) -> int:
        """Place the blocks in an order as long as the plan can become the best.

        Parameters
        ----------
        blocks
            Every block once.
        name
            What the order is.
        fit, objects
            As for :func:`planners.greedy.place.place_blocks`.
        only_goal
            Give up where the plan misses the goal.

        Returns
        -------
        int
            Blocks that were placed: all, or those in front of the one that ended too high.

        Raises
        ------
        TimeoutError
            The time limit passed.
        """
        limits = [self.goal + 1] if only_goal else []
        if self.best is not None:
            limits.append(self.best.peak)
        attempt = place_blocks(
            self.problem,
            blocks,
            fit,
            self._placement_budget(),
            objects=objects,
            below=min(limits, default=None),
        )
        self.count += 1
        if attempt.plan is not None:
            self.offer(attempt.plan, name)
        return attempt.placed


def answer_with_best(
    attempts: Attempts, bound: Bound, search: Callable[[Attempts], None]
) -> Result:
    """Search, and answer with the best plan, also where the time limit or Ctrl-C ended the search.

    Parameters
    ----------
    attempts
        Where the plans of the search go.
    bound
        The best lower bound of the problem.
    search
        Makes attempts until they are over.

    Returns
    -------
    Result
        ``statistics``: ``attempts``, ``order`` of the best plan, and ``interrupted`` after Ctrl-C.

    Raises
    ------
    TimeoutError, KeyboardInterrupt
        Before the first plan was complete.
    """
    interrupted = False
    try:
        search(attempts)
    except (TimeoutError, KeyboardInterrupt) as stop:
        if attempts.best is None:
            raise
        interrupted = isinstance(stop, KeyboardInterrupt)
    assert attempts.best is not None
    if attempts.best.peak == bound.bytes:
        answer = optimal(attempts.best, bound.name)
    else:
        answer = feasible(attempts.best, bound.bytes, bound.name)
    statistics: dict[str, Scalar] = {"attempts": attempts.count, "order": attempts.found_by}
    if interrupted:
        return replace(answer, reason="interrupted", statistics=statistics | {"interrupted": True})
    return replace(answer, statistics=statistics)
