"""From what a search did to an answer that claims no more than was proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planners.exact.warm_start import WarmStart
from planners.model.plan import (
    Plan,
    Result,
    above_capacity,
    feasible,
    infeasible,
    no_plan_found,
    optimal,
)
from planners.model.problem import Problem, Scalar


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found and proved."""

    # The best plan that the search found, if any.
    plan: Plan | None = None
    # Whether the search proved that no plan is better than the best of ``plan`` and the incumbent;
    # or, with a capacity that the best does not fit, that none fits.
    exhausted: bool = False
    # Bytes that the search proved; 0 for nothing.
    lower_bound: int = 0
    # Why the search did not finish; empty where nothing needs saying.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)


def result_of(problem: Problem, start: WarmStart, planner: str, outcome: SearchOutcome) -> Result:
    """Return the answer of a search."""
    best = start.plan
    if outcome.plan is not None and outcome.plan.peak < best.peak:
        best = outcome.plan
    bound, certificate = start.bound.bytes, start.bound.name
    if outcome.lower_bound > bound:
        bound, certificate = outcome.lower_bound, planner
    return replace(
        _verdict(problem, best, bound, certificate, planner, outcome),
        statistics=outcome.statistics,
    )


def _verdict(
    problem: Problem, best: Plan, bound: int, certificate: str, planner: str, outcome: SearchOutcome
) -> Result:
    capacity = problem.capacity
    if capacity is not None and best.peak > capacity:
        if bound > capacity:
            return replace(above_capacity(certificate, bound, capacity), plan=best)
        if outcome.exhausted:
            proof = infeasible(planner, f"the search proved that no plan fits {capacity} bytes")
            return replace(proof, plan=best, lower_bound=capacity + 1)
        reason = outcome.reason or "the search ended before it found a plan that fits"
        return replace(no_plan_found(reason, bound, certificate), plan=best)
    if bound >= best.peak:
        return optimal(best, certificate)
    if outcome.exhausted and capacity is None:
        return optimal(best, planner)
    return replace(feasible(best, bound, certificate), reason=outcome.reason)
