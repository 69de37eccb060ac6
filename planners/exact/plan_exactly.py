"""The frame of every exact planner: greedy start, search, answer."""

from __future__ import annotations

from collections.abc import Callable

from planners.exact.model_limits import ModelTooLargeError
from planners.exact.search_outcome import SearchOutcome
from planners.exact.warm_start import WarmStart, warm_incumbent
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem


def plan_exactly(
    problem: Problem,
    budget: Budget,
    planner: str,
    search: Callable[[WarmStart], SearchOutcome],
    known: Plan | None = None,
    require: Callable[[], object] | None = None,
) -> Findings:
    """Start from the greedy plans, search if they prove nothing yet, and return the findings."""
    if require is not None:
        require()
    incumbent = warm_incumbent(problem, budget, known)
    if incumbent.over or incumbent.bound.bytes > incumbent.goal:
        return incumbent.findings()
    if incumbent.best is None:
        return incumbent.findings("the time limit passed before the first greedy plan")

    def offer(plan: Plan) -> None:
        incumbent.offer(plan, planner)

    try:
        outcome = search(WarmStart(incumbent.best, incumbent.bound, offer, incumbent.tell))
    except (TimeoutError, ModelTooLargeError) as error:
        outcome = SearchOutcome(reason=f"the search was not started: {error}")
    except KeyboardInterrupt:
        outcome = SearchOutcome(reason="interrupted while the model was built", interrupted=True)
    if outcome.plan is not None:
        offer(outcome.plan)
    incumbent.prove(outcome.lower_bound, planner)
    if outcome.exhausted:
        incumbent.exhaust(planner)
    return incumbent.findings(outcome.reason, outcome.statistics, interrupted=outcome.interrupted)
