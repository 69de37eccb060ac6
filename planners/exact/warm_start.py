"""Where every exact planner starts: the best greedy plan and the best bound."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from planners.greedy.incumbent import Incumbent
from planners.greedy.portfolio import Portfolio
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, above_capacity, feasible, no_plan_found, optimal
from planners.model.problem import Problem


@dataclass(frozen=True)
class WarmStart:
    """What is known before the search."""

    # The best greedy plan.
    plan: Plan
    # The best lower bound.
    bound: Bound


def warm_start_of(
    problem: Problem, budget: Budget, incumbent: Plan | None = None
) -> WarmStart | Result:
    """Return what the search starts from, or the answer where none is needed."""
    capacity = problem.capacity
    attempts = Incumbent(problem, replace(budget, node_limit=None), capacity)
    if attempts.bound.bytes > attempts.goal:
        return above_capacity(attempts.bound.name, attempts.bound.bytes, attempts.goal)
    if incumbent is not None:
        attempts.offer(incumbent, "incumbent")
    else:
        with suppress(TimeoutError):
            Portfolio(problem).run(attempts, prove=attempts.ask_for_bounds)
    if not attempts.over:
        attempts.ask_for_bounds()
    best, bound = attempts.best, attempts.bound
    if best is None:
        return no_plan_found(
            "the time limit passed before the first greedy plan", bound.bytes, bound.name
        )
    if capacity is not None and best.peak <= capacity:
        return feasible(best, bound.bytes, bound.name)
    if capacity is not None and bound.bytes > capacity:
        return replace(above_capacity(bound.name, bound.bytes, capacity), plan=best)
    if best.peak == bound.bytes:
        return optimal(best, bound.name)
    return WarmStart(best, bound)
