"""A start that proves nothing, so that the search itself answers."""

from __future__ import annotations

import numpy as np

from planners.exact.warm_start import WarmStart, warm_start_of
from planners.greedy.naive import naive
from planners.greedy.place import place
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.plan import Plan, Result
from planners.model.problem import Problem


def weak_start(
    problem: Problem, budget: Budget, _incumbent: Plan | None = None
) -> WarmStart | Result:
    """Return a plan in random order, and a bound of 0, for all but the empty problem."""
    tensors = problem.tensor_count
    if not tensors:
        return warm_start_of(problem, budget)
    order = np.random.default_rng(tensors).permutation(tensors)
    return WarmStart(place(problem, order), _nothing())


def worst_start(
    problem: Problem, budget: Budget, incumbent: Plan | None = None
) -> WarmStart | Result:
    """Return a plan without any reuse where there are tensors and no pins, and a bound of 0."""
    if not problem.tensor_count or (problem.pinned >= 0).any():
        return weak_start(problem, budget, incumbent)
    return WarmStart(naive(problem, budget), _nothing())


def _nothing() -> Bound:
    return Bound("nothing", 0, np.empty(0, dtype=np.int64))
