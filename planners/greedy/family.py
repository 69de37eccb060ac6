"""Families of greedy planners: one algorithm with every order and every fit."""

from __future__ import annotations

from collections.abc import Callable

from planners.greedy.place import FITS, ChainRule
from planners.greedy.sort_keys import ORDERS, summary_of
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import register


def register_family(
    prefix: str, algorithm: Callable[..., Plan], *, places_into: str, source: str
) -> None:
    """Register ``PREFIX-ORDER-FIT`` for every order and every fit."""
    for order in ORDERS:
        for fit in FITS:
            summary = f"{summary_of(order)}; {fit} fit into {places_into}"
            planner = _planner(algorithm, order, fit)
            register(f"{prefix}-{order}-{fit}", summary=summary, source=source)(planner)


def _planner(algorithm: Callable[..., Plan], order: str, fit: str) -> Callable[..., Plan]:
    def plan(problem: Problem, budget: Budget, chain_rule: ChainRule = "exact") -> Plan:
        return algorithm(problem, order, fit, chain_rule=chain_rule, budget=budget)

    return plan
