"""The planner to take without thinking: quick proofs first, then search as long as it may."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle

from planners.bounds import Bound, bounds_of
from planners.budget import Budget
from planners.exact.incumbent import Start
from planners.exact.outcome import Outcome, result_of
from planners.greedy.attempts import SECONDS_A_BLOCK, Attempts
from planners.greedy.pressure import PressureOrders
from planners.plan import Plan, Result, infeasible, no_plan_found
from planners.problem import Problem, Safety, Scalar
from planners.registry import register
from planners.search.exact_step import ExactSearch, ExactStep
from planners.search.order_walk import OrderWalk
from planners.search.portfolio import Portfolio
from planners.search.windows import Windows

NAME = "auto"

# Without any limit the search ends after this many attempts times blocks, and has had this many
# attempts at least: seconds for a thousand tensors, and room for every greedy planner at any size.
DEFAULT_EFFORT = 30_000_000
LEAST_ATTEMPTS = 24

# So few blocks have few orders. After so many attempts for each of them the rest would find nothing
# new: without an exact search there is no proof to wait for.
FEW_BLOCKS = 9
ATTEMPTS_AN_ORDER = 20

# A bit a pair, and a scan of what is placed a block: above this only windows are searched.
MOST_BLOCKS_IN_ROWS = 20_000
# Below this a window is hardly smaller than the whole.
LEAST_BLOCKS_FOR_WINDOWS = 500
# Slices of the walk over orders between two targets of the windows.
SLICES_A_TURN = 20


@register(
    NAME,
    summary="Greedy portfolio, pressure orders, then local and window search, until a bound is met",
    source="Gapless",
)
def auto(problem: Problem, budget: Budget) -> Result:
    """Plan any problem: take what proves itself at once, and search on where nothing does.

    Parameters
    ----------
    problem
        Any. With a capacity the first plan that fits is the answer.
    budget
        See :func:`plan_any`.

    Returns
    -------
    Result
        See :func:`plan_any`.

    Raises
    ------
    KeyboardInterrupt
        Before the first plan was complete.
    """
    return plan_any(problem, budget, exact=None)


def plan_any(problem: Problem, budget: Budget, exact: ExactSearch | None) -> Result:
    """Plan any problem, with the help of an exact search where there is one.

    Parameters
    ----------
    problem
        Any. With a capacity the first plan that fits is the answer.
    budget
        Time limit, and ``node_limit`` on attempts and nodes of the exact search. Without either a
        limit on nodes is taken that falls with the number of tensors. Ctrl-C ends the search as
        the time limit does.
    exact
        Proves small problems, and places windows anew.

    Returns
    -------
    Result
        Never worse than any greedy planner that the budget had room for, with the best bound.
        ``statistics``: ``attempts``, ``found_by``, and ``interrupted`` after Ctrl-C.

    Raises
    ------
    KeyboardInterrupt
        Before the first plan was complete.
    """
    budget = _with_node_limit(problem, budget, exact)
    if budget.remaining_seconds() <= problem.blocks.count * SECONDS_A_BLOCK:
        return no_plan_found("the time limit leaves no room for a plan")
    bound = max(bounds_of(problem, budget.remaining_seconds()), key=lambda known: known.bytes)
    goal = bound.bytes if problem.capacity is None else problem.capacity
    if goal < bound.bytes:
        reason = f"at least {bound.bytes} bytes are needed, the capacity is {goal}"
        return replace(infeasible(bound.name, reason), lower_bound=bound.bytes)
    attempts = Attempts(problem, goal, budget)
    step = None if exact is None else ExactStep(attempts, exact)
    reason, interrupted = "", False
    try:
        _search(attempts, bound, step)
    except TimeoutError:
        if attempts.best is None:
            return no_plan_found(
                "the time limit passed before the first greedy plan", bound.bytes, bound.name
            )
        reason = "time limit"
    except KeyboardInterrupt:
        if attempts.best is None:
            raise
        reason, interrupted = "interrupted", True
    assert attempts.best is not None
    statistics: dict[str, Scalar] = {"attempts": attempts.count, "found_by": attempts.found_by}
    if interrupted:
        statistics["interrupted"] = True
    outcome = Outcome(
        exhausted=step is not None and step.exhausted,
        lower_bound=0 if step is None else step.lower_bound,
        reason=reason,
        statistics=statistics,
    )
    return result_of(problem, Start(attempts.best, bound), NAME, outcome)


def _with_node_limit(problem: Problem, budget: Budget, exact: ExactSearch | None) -> Budget:
    """Return the budget with what limits the search where the user left it open."""
    limits = [] if budget.node_limit is None else [budget.node_limit]
    blocks = problem.blocks.count
    if budget.node_limit is None and budget.time_limit_seconds is None:
        limits.append(max(LEAST_ATTEMPTS, DEFAULT_EFFORT // max(1, blocks)))
    if exact is None and blocks <= FEW_BLOCKS:
        limits.append(ATTEMPTS_AN_ORDER * math.factorial(blocks))
    return replace(budget, node_limit=min(limits, default=None))


def _search(attempts: Attempts, bound: Bound, step: ExactStep | None) -> None:
    """Improve the best plan until the attempts are over.

    Note: why two rounds. Most problems have an order that meets a bound, and an attempt that
    asks for no less ends at the first block in the way. So everything is asked for the proof
    first, and only then for anything better than the best plan. The pressure orders share more of
    their work than the portfolio, and where they prove nothing they end sooner.
    """
    problem = attempts.problem
    portfolio = Portfolio(problem)
    portfolio.run_first(attempts)
    if attempts.over:
        return
    pressure = None if problem.safety is Safety.PAIRS else PressureOrders(problem, bound)
    for only_goal in (True, False):
        if pressure is not None:
            pressure.run(attempts, only_goal=only_goal)
        portfolio.run_others(attempts, only_goal=only_goal)
    if attempts.over:
        return
    for search in cycle(_searches(attempts, portfolio, step)):
        if attempts.over or (step is not None and step.exhausted):
            return
        search()


def _searches(
    attempts: Attempts, portfolio: Portfolio, step: ExactStep | None
) -> list[Callable[[], object]]:
    """Return the searches that take turns."""
    problem = attempts.problem
    searches: list[Callable[[], object]] = []
    if step is not None and step.applies:
        searches.append(step.run)
    if problem.blocks.count <= MOST_BLOCKS_IN_ROWS:
        walk = OrderWalk(attempts, [order for _, order in portfolio.orders()])
        searches.append(partial(walk.walk, SLICES_A_TURN))
    if problem.blocks.count >= LEAST_BLOCKS_FOR_WINDOWS:
        exact = None if step is None else step.search
        searches.append(Windows(attempts, partial(place_window, exact=exact)).improve)
    return searches


def place_window(
    problem: Problem, budget: Budget, exact: ExactSearch | None = None
) -> tuple[Plan | None, int]:
    """Look for a plan that fits: greedy by size, local search over orders, then exactly.

    Parameters
    ----------
    problem
        Small, with a capacity.
    budget
        ``node_limit`` counts attempts and, after that, the nodes of the exact search.
    exact
        Exact search, if there is one.

    Returns
    -------
    tuple
        A plan within the capacity or None, and the number of attempts and nodes.

    Raises
    ------
    TimeoutError
        The time limit passed.
    """
    assert problem.capacity is not None
    attempts = Attempts(problem, problem.capacity, budget)
    portfolio = Portfolio(problem)
    portfolio.run_first(attempts)
    if not attempts.over:
        OrderWalk(attempts, [order for _, order in portfolio.orders()]).run()
    assert attempts.best is not None
    nodes = attempts.count
    if attempts.best.peak > problem.capacity and exact is not None:
        step = ExactStep(attempts, exact)
        attempts.count = 0
        step.run()
        nodes += attempts.count
    return attempts.best if attempts.best.peak <= problem.capacity else None, nodes
