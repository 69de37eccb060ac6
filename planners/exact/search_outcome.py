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
    """What a search found and proved.

    Parameters
    ----------
    plan
        The best plan that the search found, if any.
    exhausted
        Whether the search proved that no plan is better than the best of ``plan`` and the
        incumbent; or, with a capacity that the best does not fit, that none fits.
    lower_bound
        Bytes that the search proved; 0 for nothing.
    reason
        Why the search did not finish; empty where nothing needs saying.
    statistics
        Counters of the search.
    """

    plan: Plan | None = None
    exhausted: bool = False
    lower_bound: int = 0
    reason: str = ""
    statistics: Mapping[str, Scalar] = field(default_factory=dict)


def result_of(problem: Problem, start: WarmStart, planner: str, outcome: SearchOutcome) -> Result:
    """Return the answer of a search.

    Parameters
    ----------
    problem
        What was searched.
    start
        What the search started from.
    planner
        Name of the planner, the certificate of what it proved itself.
    outcome
        What the search did.

    Returns
    -------
    Result
        With the best plan known, also where it does not fit the capacity.
    """
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
