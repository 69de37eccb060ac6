"""A problem of a family together with the plan that proves its optimum."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np

from planners import Plan, Problem, check


def with_plan(
    family: Callable[..., Problem], *size: int, **options: float
) -> tuple[Problem, np.ndarray]:
    """Return a problem and the offsets of its known plan, which is valid and has the optimum."""
    problem = family(*size, **options)
    offset = inspect.unwrap(family)(*size, **options).offset
    plan = Plan.of(problem, offset)
    check(problem, plan)
    assert plan.peak == problem.origin["optimum"]
    return problem, offset
