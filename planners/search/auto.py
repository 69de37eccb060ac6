"""The planner to take without thinking: quick proofs first, then search as long as it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np

from planners.exact.branch_and_bound.branch_and_bound import Resumable
from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.exact.search_outcome import SearchOutcome, result_of
from planners.exact.warm_start import WarmStart
from planners.greedy.incumbent import SECONDS_A_BLOCK, Incumbent
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.greedy.stacking import stack_rest
from planners.model.budget import Budget
from planners.model.plan import Plan, Result, above_capacity, no_plan_found
from planners.model.problem import Problem, Safety, Scalar
from planners.registry import register
from planners.search.exact_step import ExactSearch, ExactStep
from planners.search.large_neighbourhood import LargeNeighbourhoodSearch
from planners.search.order_search import OrderSearch

NAME = "auto"

# Without any limit the search ends after this many attempts times blocks, and has had this many
# attempts at least: seconds for a thousand tensors, and room for every greedy planner at any size.
DEFAULT_EFFORT = 30_000_000
LEAST_ATTEMPTS = 24

# A bit a pair, and a scan of what is placed a block: above this only windows are searched.
MOST_BLOCKS_IN_ROWS = 20_000
# Below this a window is hardly smaller than the whole.
LEAST_BLOCKS_FOR_WINDOWS = 500
# Every turn is twice as long as the one before, up to a point: what is hard for one of the searches
# is often easy for another.
MOST_DOUBLINGS = 20
# What local search over orders does not place, the exact search places soon or not at all; and only
# where its nodes are cheap.
EXACT_NODES_A_WINDOW = 500
# Slices of the walk over orders in its first turn.
SLICES_A_TURN = 20


@register(
    NAME,
    summary="Greedy portfolio, pressure orders, then exact, local and window search until a proof",
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
    """
    return plan_any(problem, budget, Resumable(problem))


def plan_any(problem: Problem, budget: Budget, exact: ExactSearch) -> Result:
    """Plan any problem, with the help of an exact search."""
    budget = _with_node_limit(problem, budget)
    if budget.remaining_seconds() <= problem.blocks.count * SECONDS_A_BLOCK:
        return no_plan_found("the time limit leaves no room for a plan")
    attempts = Incumbent(problem, budget, problem.capacity)
    if attempts.bound.bytes > attempts.goal:
        bound = attempts.bound
        return above_capacity(bound.name, bound.bytes, attempts.goal)
    step = ExactStep(attempts, exact)
    reason, interrupted = "", False
    try:
        _search(attempts, step)
    except TimeoutError:
        reason = "time limit"
    except KeyboardInterrupt:
        reason, interrupted = "interrupted", True
    if attempts.best is None:
        _offer_without_reuse(attempts)
    if attempts.best is None:
        ended = "Ctrl-C came" if interrupted else "the time limit passed"
        bound = attempts.bound
        return no_plan_found(f"{ended} before the first greedy plan", bound.bytes, bound.name)
    statistics: dict[str, Scalar] = {"attempts": attempts.count, "found_by": attempts.found_by}
    if interrupted:
        statistics["interrupted"] = True
    outcome = SearchOutcome(
        exhausted=step.exhausted,
        lower_bound=step.lower_bound,
        reason=reason,
        statistics=statistics,
    )
    return result_of(problem, WarmStart(attempts.best, attempts.bound), NAME, outcome)


def _offer_without_reuse(attempts: Incumbent) -> None:
    """Offer a plan in which no two blocks share a byte, for there was no time for another."""
    problem = attempts.problem
    nowhere = np.zeros(problem.tensor_count, dtype=np.int64)
    plan = stack_rest(problem, nowhere, np.arange(problem.blocks.count))
    if plan is not None:
        attempts.offer(plan, "no reuse")


def _with_node_limit(problem: Problem, budget: Budget) -> Budget:
    """Return the budget with a limit on nodes where the user set none at all."""
    if budget.node_limit is not None or budget.time_limit_seconds is not None:
        return budget
    limit = max(LEAST_ATTEMPTS, DEFAULT_EFFORT // max(1, problem.blocks.count))
    return replace(budget, node_limit=limit)


def _search(attempts: Incumbent, step: ExactStep) -> None:
    """Improve the best plan until the attempts are over.

    Note: why two rounds. Most problems have an order that meets a bound, and an attempt that
    asks for no less ends at the first block in the way. So everything is asked for the proof
    first, as far as the greedy planners leave time for it, and only then for anything better than
    the best plan. The pressure orders share more of their work than the portfolio, and where they
    prove nothing they end sooner.
    """
    portfolio = Portfolio(attempts.problem)
    portfolio.run(attempts, prove=lambda: _prove(attempts, portfolio))
    if attempts.over:
        return
    attempts.ask_for_bounds()
    if attempts.problem.safety is not Safety.PAIRS:
        PressureOrders(attempts.problem, attempts.bound).run(attempts, only_goal=False)
    if attempts.over:
        return
    searches = _searches(attempts, portfolio, step)
    for turn in count():
        for search in searches:
            if attempts.over or step.exhausted:
                return
            search(1 << min(turn, MOST_DOUBLINGS))


def _prove(attempts: Incumbent, portfolio: Portfolio) -> None:
    """Ask everything for a plan that meets the goal, and for nothing less."""
    attempts.ask_for_bounds()
    if attempts.problem.safety is not Safety.PAIRS:
        PressureOrders(attempts.problem, attempts.bound).run(attempts, only_goal=True)
    portfolio.run_others(attempts, only_goal=True)


def _searches(
    attempts: Incumbent, portfolio: Portfolio, step: ExactStep
) -> list[Callable[[int], object]]:
    """Return the searches that take turns; each is told how long its turn is."""
    problem = attempts.problem
    searches: list[Callable[[int], object]] = []
    if step.applies:
        searches.append(step.run)
    if problem.blocks.count <= MOST_BLOCKS_IN_ROWS:
        walk = OrderSearch(attempts, [order for _, order in portfolio.orders()])
        searches.append(lambda length: walk.walk(SLICES_A_TURN * length))
    if problem.blocks.count >= LEAST_BLOCKS_FOR_WINDOWS:
        windows = LargeNeighbourhoodSearch(attempts, partial(place_window, exact=step.search))
        searches.append(windows.improve)
    searches.append(lambda _: attempts.ask_for_bounds())
    return searches


def place_window(
    problem: Problem, budget: Budget, exact: ExactSearch = branch_and_bound
) -> tuple[Plan | None, int]:
    """Look for a plan that fits: greedy by size, local search over orders, then exactly."""
    assert problem.capacity is not None
    attempts = Incumbent(problem, budget, problem.capacity)
    portfolio = Portfolio(problem)
    portfolio.run_first(attempts)
    if not attempts.over:
        OrderSearch(attempts, [order for _, order in portfolio.orders()]).run()
    assert attempts.best is not None
    nodes = attempts.count
    if attempts.best.peak > problem.capacity and not problem.contiguous:
        answer = exact(problem, replace(budget, node_limit=EXACT_NODES_A_WINDOW), attempts.best)
        nodes += EXACT_NODES_A_WINDOW
        if answer.plan is not None:
            attempts.offer(answer.plan, "exact search")
        if answer.statistics.get("interrupted"):
            raise KeyboardInterrupt
    return attempts.best if attempts.best.peak <= problem.capacity else None, nodes
