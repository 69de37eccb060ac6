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
    """Start from the greedy plans, search where that proves nothing yet, and answer.

    Parameters
    ----------
    problem
        Any without conflicting pins, which :func:`planners.run.run` answers itself.
    budget
        Its clock runs.
    planner
        Name of the planner.
    search
        Builds the model and solves it. Where it may not start, it raises ``TimeoutError`` or
        ``ModelTooLargeError``, and the greedy plan is the answer, with that as its reason.
    incumbent
        A valid plan to start from; None for the greedy plans.
    require
        Raises ``MissingDependencyError`` where what the search needs is not installed. It does not
        import it: most problems need no search.

    Returns
    -------
    Result
        See :func:`planners.exact.search_outcome.result_of`.
    """
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
