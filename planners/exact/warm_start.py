"""The start of every exact planner: the best greedy plan and the best bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from planners.greedy.portfolio import Portfolio
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.search.incumbent import Incumbent


@dataclass(frozen=True)
class WarmStart:
    """The knowledge before the search."""

    # The best greedy plan.
    plan: Plan
    # The best lower bound.
    bound: Bound
    # Called with every better plan as soon as a search has it.
    offer: Callable[[Plan], None]
    # Called with the time and the peak that a solver reached, if its plans do not come one by one.
    tell: Callable[[float, int], None]


def warm_incumbent(problem: Problem, budget: Budget, known: Plan | None = None) -> Incumbent:
    """Return the incumbent of a known plan, or of all greedy plans, with the best bound."""
    incumbent = Incumbent(problem, replace(budget, node_limit=None), problem.capacity)
    if incumbent.bound.bytes > incumbent.goal:
        return incumbent
    if known is not None:
        incumbent.offer(known, "incumbent")
    else:
        with suppress(TimeoutError):
            Portfolio(problem).run(incumbent, prove=incumbent.ask_for_bounds)
    if not incumbent.over:
        incumbent.ask_for_bounds()
    return incumbent
