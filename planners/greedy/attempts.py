"""Many orders, one after the other: the best plan of all, and what found it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planners.budget import Budget
from planners.greedy.place import place_blocks
from planners.plan import Plan
from planners.problem import Problem


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
            self.problem, blocks, fit, self.budget, objects=objects, below=min(limits, default=None)
        )
        self.count += 1
        if attempt.plan is not None:
            self.offer(attempt.plan, name)
        return attempt.placed
