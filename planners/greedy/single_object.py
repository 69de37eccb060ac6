"""Single Object: one buffer, every order with every fit."""

from __future__ import annotations

from planners.budget import Budget
from planners.greedy.orders import ORDERS, summary_of
from planners.greedy.place import FITS, ChainRule, place
from planners.plan import Plan
from planners.problem import Problem
from planners.registry import register


def _register(order: str, fit: str) -> None:
    @register(
        f"greedy-{order}-{fit}",
        summary=f"{summary_of(order)}; {fit} fit into one buffer",
        source="safe-optimized-static-memory-allocation, algorithm 6",
    )
    def plan(problem: Problem, budget: Budget, chain_rule: ChainRule = "exact") -> Plan:
        return place(problem, order, fit, chain_rule=chain_rule, budget=budget)


for _order in ORDERS:
    for _fit in FITS:
        _register(_order, _fit)
