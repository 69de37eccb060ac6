"""A start that proves nothing, so that the search itself answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planners.exact.plan_exactly import warm_incumbent
from planners.greedy.naive import naive
from planners.greedy.place import place
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem

NOTHING = Bound("nothing", 0, np.empty(0, dtype=np.int64))


class Given(Incumbent):
    """Starts from a plan and a bound, whatever else is known."""

    def __init__(self, problem: Problem, budget: Budget, plan: Plan, bound: Bound) -> None:
        super().__init__(problem, replace(budget, node_limit=None), problem.capacity)
        self._bound = bound
        self.offer(plan, "given")


def weak_start(problem: Problem, budget: Budget, _known: Plan | None = None) -> Incumbent:
    """Return a plan in random order, and a bound of 0, for all but the empty problem."""
    tensors = problem.tensor_count
    if not tensors:
        return warm_incumbent(problem, budget)
    order = np.random.default_rng(tensors).permutation(tensors)
    return Given(problem, budget, place(problem, order), NOTHING)


def worst_start(problem: Problem, budget: Budget, known: Plan | None = None) -> Incumbent:
    """Return a plan without any reuse where there are tensors and no pins, and a bound of 0."""
    if not problem.tensor_count or (problem.pinned >= 0).any():
        return weak_start(problem, budget, known)
    return Given(problem, budget, naive(problem, budget), NOTHING)
