"""The frame of every planner that keeps the best of many plans: stages in turn, then the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from planners.greedy.place import place_better, stack_rest
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.problem import Problem, Scalar

Stage = Callable[[], object]
"""Improves the incumbent or its bounds; may end with ``TimeoutError`` or Ctrl-C at any time."""


def with_node_limit(problem: Problem, budget: Budget, effort: int, least: int) -> Budget:
    """Return the budget with a limit on attempts if the user set neither a time nor a node limit.

    The limit is ``effort`` in attempts times blocks, but at least ``least`` attempts.
    """
    if budget.node_limit is not None or budget.time_limit_seconds is not None:
        return budget
    return replace(budget, node_limit=max(least, effort // max(1, problem.blocks.count)))


def plan_in_stages(incumbent: Incumbent, stages: Iterable[Stage]) -> Findings:
    """Run stages until the incumbent is over, and return its findings, whatever ended them."""
    if not incumbent.has_room_for_an_order:
        return Findings(reason="the time limit leaves no room for a plan")
    if incumbent.bound.bytes > incumbent.goal:
        return incumbent.findings()
    reason, interrupted = "", False
    try:
        for stage in stages:
            stage()
            if incumbent.over:
                break
    except TimeoutError:
        reason = "time limit"
    except KeyboardInterrupt:
        reason, interrupted = "interrupted", True
    if incumbent.best is None:
        _offer_without_reuse(incumbent)
    if incumbent.best is None:
        ended = "Ctrl-C came" if interrupted else "the time limit passed"
        reason = f"{ended} before the first greedy plan"
    counters: dict[str, Scalar] = {"attempts": incumbent.count, "found_by": incumbent.found_by}
    return incumbent.findings(reason, counters, interrupted=interrupted)


def ask_for_bounds_after_a_plan(
    incumbent: Incumbent, orders: Callable[[Problem, Bound], Iterator[tuple[str, IntColumn]]]
) -> None:
    """Place the first order before bounds take time; then their witness improves the orders."""
    if not incumbent.bounds_are_known:
        name, order = next(orders(incumbent.problem, incumbent.bound))
        place_better(incumbent, order, name)
        incumbent.ask_for_bounds()


def _offer_without_reuse(incumbent: Incumbent) -> None:
    """Offer a plan in which no two blocks share a byte, because time allowed no other."""
    problem = incumbent.problem
    nowhere = np.zeros(problem.tensor_count, dtype=np.int64)
    plan = stack_rest(problem, nowhere, np.arange(problem.blocks.count))
    if plan is not None:
        incumbent.offer(plan, "no reuse")
