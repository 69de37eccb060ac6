"""The frame of every exact planner: greedy start, search, truthful answer."""

from __future__ import annotations

from collections.abc import Callable

from planners.exact.model_limits import ModelTooLargeError
from planners.exact.search_outcome import SearchOutcome, result_of
from planners.exact.warm_start import WarmStart, warm_start_of
from planners.model.budget import Budget
from planners.model.plan import Plan, Result
from planners.model.problem import Problem


def plan_exactly(
    problem: Problem,
    budget: Budget,
    planner: str,
    search: Callable[[WarmStart], SearchOutcome],
    incumbent: Plan | None = None,
    require: Callable[[], object] | None = None,
) -> Result:
    """Start from the greedy plans, search where that proves nothing yet, and answer."""
    if require is not None:
        require()
    start = warm_start_of(problem, budget, incumbent)
    if isinstance(start, Result):
        return start
    try:
        outcome = search(start)
    except (TimeoutError, ModelTooLargeError) as error:
        outcome = SearchOutcome(reason=f"the search was not started: {error}")
    except KeyboardInterrupt:
        outcome = SearchOutcome(
            reason="interrupted while the model was built", statistics={"interrupted": True}
        )
    return result_of(problem, start, planner, outcome)
