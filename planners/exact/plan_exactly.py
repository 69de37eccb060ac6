"""The frame of every exact planner: greedy start, search, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

from planners.errors import MissingDependencyError
from planners.exact.model_limits import ModelTooLargeError
from planners.greedy.portfolio import Portfolio
from planners.model.bounds import Bound
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.model.problem import Problem, Scalar


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


@dataclass(frozen=True)
class SearchOutcome:
    """The plan and the proofs of a search."""

    # The best plan that the search found, if any.
    plan: Plan | None = None
    # True if the search proved that no plan is better than the best of ``plan`` and the incumbent;
    # or, with a capacity that this best plan exceeds, that no plan fits.
    exhausted: bool = False
    # The lower bound in bytes that the search proved; 0 for none.
    lower_bound: int = 0
    # Why the search did not finish; empty if it did.
    reason: str = ""
    # Counters of the search.
    statistics: Mapping[str, Scalar] = field(default_factory=dict)
    # True if Ctrl-C ended the search.
    interrupted: bool = False


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


def require_package(module: str, package: str, command: str) -> None:
    """Raise ``MissingDependencyError`` if a package is missing, without the cost of its import."""
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None:
        raise MissingDependencyError(f"{package} is not installed; install it with: {command}")
