"""The planner to take without thinking: quick proofs first, then search as long as it may."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from planners.exact.branch_and_bound.branch_and_bound import Resumable
from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.greedy.stages import plan_in_stages, with_node_limit
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.problem import Problem, Safety
from planners.registry import SomeOf, register
from planners.search.bound_search import BoundSearch
from planners.search.exact_step import ExactStep
from planners.search.incumbent import Incumbent
from planners.search.large_neighbourhood import LargeNeighbourhoodSearch
from planners.search.largest_first import LargestFirst
from planners.search.nests import Nests
from planners.search.order_search import OrderSearch
from planners.search.parts import Parts
from planners.search.side_searches import search_in_threads
from planners.search.skyline import SkylineBeams
from planners.search.skyline_fills import SkylineFills
from planners.search.turns import ExactSearch, Search, Shared, Turns

NAME = "auto"

# In the order of their turns. A beam takes less time with a better plan to start from, so places
# are filled before.
SEARCHES: tuple[type[Search], ...] = (
    Nests,
    ExactStep,
    Parts,
    SkylineFills,
    SkylineBeams,
    OrderSearch,
    LargestFirst,
    LargeNeighbourhoodSearch,
    BoundSearch,
)
NAMES = tuple(search.name for search in SEARCHES)
# With fewer blocks the exact search needs less for what both can prove, and goes before nests.
LEAST_BLOCKS_FOR_NESTS_FIRST = 500

# Without any limit the search ends after this many attempts times blocks, and has had this many
# attempts at least: seconds for a thousand tensors, and room for every greedy planner at any size.
DEFAULT_EFFORT = 30_000_000
LEAST_ATTEMPTS = 24


@register(
    NAME,
    summary="Greedy portfolio, pressure orders, then exact, beam and local searches until a proof",
    source="Gapless",
)
def auto(problem: Problem, budget: Budget, without: Annotated[str, SomeOf(NAMES)] = "") -> Findings:
    """Plan any problem: take what proves itself at once, and search on where nothing does.

    Parameters
    ----------
    problem
        Any. With a capacity the first plan that fits is the answer.
    budget
        ``node_limit`` counts attempts and nodes, of each thread; further threads search with
        other seeds, and under a node limit the answer is never worse for them. The best plan so far
        is the answer when the time is over or Ctrl-C comes.
    without
        Names of searches that take no turns, joined by ``+``: those of ``SEARCHES``.

    Returns
    -------
    Findings
        ``statistics``: ``attempts``, ``found_by`` of the best plan, ``turns`` of each search in the
        first thread, and ``no_turn``: which searches had none, and why.
    """
    return plan_any(problem, budget, Resumable(problem), frozenset(without.split("+")))


def plan_any(
    problem: Problem, budget: Budget, exact: ExactSearch, without: frozenset[str] = frozenset()
) -> Findings:
    """Plan any problem, with the help of an exact search.

    Note: why two rounds. Most problems have an order that meets a bound, and an attempt that
    asks for no less ends at the first block in the way. So everything is asked for the proof
    first, as far as the greedy planners leave time for it, and only then for anything better than
    the best plan. The pressure orders share more of their work than the portfolio, and where they
    prove nothing they end sooner.
    """
    budget = with_node_limit(problem, budget, DEFAULT_EFFORT, LEAST_ATTEMPTS)
    # Whatever is asked below runs on one thread: the pieces of a nest, and the exact search.
    threads, budget = budget.threads, replace(budget, threads=1)
    incumbent = Incumbent(problem, budget, problem.capacity)
    portfolio = Portfolio(problem)
    turns = Turns(_in_order(problem), without)
    shared = Shared(
        incumbent, portfolio, exact, lambda piece, part: plan_any(piece, part, exact, without), NAME
    )
    findings = plan_in_stages(
        incumbent,
        [
            lambda: portfolio.run(incumbent, prove=lambda: _prove(incumbent, portfolio)),
            incumbent.ask_for_bounds,
            lambda: _run_pressure(incumbent, only_goal=False),
            lambda: _search_on(turns, shared, threads),
        ],
    )
    return replace(findings, statistics={**findings.statistics, **turns.statistics})


def _in_order(problem: Problem) -> tuple[type[Search], ...]:
    """Return all searches in the order of their turns on a problem."""
    nests, exact, *others = SEARCHES
    if problem.blocks.count < LEAST_BLOCKS_FOR_NESTS_FIRST:
        nests, exact = exact, nests
    return nests, exact, *others


def _prove(incumbent: Incumbent, portfolio: Portfolio) -> None:
    """Ask everything for a plan that meets the goal, and for nothing less."""
    incumbent.ask_for_bounds()
    _run_pressure(incumbent, only_goal=True)
    portfolio.run_others(incumbent, only_goal=True)


def _run_pressure(incumbent: Incumbent, *, only_goal: bool) -> None:
    if incumbent.problem.safety is not Safety.PAIRS:
        PressureOrders(incumbent.problem, incumbent.bound).run(incumbent, only_goal=only_goal)


def _search_on(turns: Turns, shared: Shared, threads: int) -> None:
    turns.choose(shared.incumbent.problem)
    search_in_threads(
        shared.incumbent,
        threads,
        lambda _: turns.take(shared),
        lambda side: turns.take_beside(replace(shared, incumbent=side, exact=branch_and_bound)),
    )
