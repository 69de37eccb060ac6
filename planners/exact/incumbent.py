"""Where every exact planner starts: the best greedy plan and the best bound."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from planners.bounds import Bound, bounds_of
from planners.budget import Budget
from planners.greedy.orders import ORDERS
from planners.greedy.place import FITS, place
from planners.plan import Plan, Result, feasible, infeasible, no_plan_found, optimal
from planners.problem import Problem


@dataclass(frozen=True)
class Start:
    """What is known before the search.

    Parameters
    ----------
    plan
        The best greedy plan.
    bound
        The best lower bound.
    """

    plan: Plan
    bound: Bound


def start_of(problem: Problem, budget: Budget, incumbent: Plan | None = None) -> Start | Result:
    """Return what the search starts from, or the answer where none is needed.

    Parameters
    ----------
    problem
        Any without conflicting pins.
    budget
        The time limit is honoured.
    incumbent
        A valid plan, in place of the greedy plans; None to make those.

    Returns
    -------
    Start or Result
        The answer when a greedy plan meets a bound or fits the capacity, when a bound is above
        the capacity, or when the time is over before the first plan.
    """
    bound = max(bounds_of(problem, budget.remaining_seconds()), key=lambda bound: bound.bytes)
    capacity = problem.capacity
    if capacity is not None and bound.bytes > capacity:
        reason = f"at least {bound.bytes} bytes are needed, the capacity is {capacity}"
        return replace(infeasible(bound.name, reason), lower_bound=bound.bytes)
    best = incumbent
    with suppress(TimeoutError):
        for order in ORDERS if incumbent is None else ():
            for fit in FITS:
                plan = place(problem, order, fit, budget=budget)
                if best is None or plan.peak < best.peak:
                    best = plan
                if best.peak == bound.bytes:
                    return optimal(best, bound.name)
                if budget.remaining_seconds() == 0:
                    raise TimeoutError
    if best is None:
        return no_plan_found(
            "the time limit passed before the first greedy plan", bound.bytes, bound.name
        )
    if capacity is not None and best.peak <= capacity:
        return feasible(best, bound.bytes, bound.name)
    return Start(best, bound)
