"""A planner that times what stands around a plan: safety before it, bound and referee after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from planners.greedy.place import place
from planners.model.bounds import antichain_bound, lifetime_bound
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem, Safety
from planners.referee.fast import find_violation_fast
from planners.registry import UnsupportedProblemError, register

Value = TypeVar("Value")


@register("planning-parts", summary="Time safety, bound and the referee's twin of a greedy plan")
def planning_parts(problem: Problem, budget: Budget) -> Findings:
    """Time each part once, on a problem of which nothing is known; the plan is greedy."""
    if problem.safety is Safety.PAIRS:
        raise UnsupportedProblemError("pairs alone: the relation is given")
    bound_of = lifetime_bound if problem.lifetimes_decide else antichain_bound
    safety_seconds, _ = _timed(lambda: problem.core)
    bound_seconds, bound = _timed(lambda: bound_of(problem))
    plan = place(problem, "size", "first", budget=budget)
    referee_seconds, _ = _timed(lambda: find_violation_fast(problem, plan))
    return Findings(
        plan,
        statistics={
            "bound": bound.name,
            "safety_seconds": safety_seconds,
            "bound_seconds": bound_seconds,
            "referee_seconds": referee_seconds,
        },
    )


def _timed(call: Callable[[], Value]) -> tuple[float, Value]:
    begun = time.process_time()
    value = call()
    return time.process_time() - begun, value
