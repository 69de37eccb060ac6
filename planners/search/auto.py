"""The default planner: quick proofs first, then all searches in turns until the budget is spent."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from planners.exact.branch_and_bound.branch_and_bound import Resumable, search
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.greedy.stages import plan_in_stages, with_node_limit
from planners.model.budget import Budget
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.model.problem import Problem, Safety
from planners.registry import SomeOf, register
from planners.search.bound_search import BoundSearch
from planners.search.cost_turns import with_cost_turns
from planners.search.exact_step import ExactStep
from planners.search.large_neighbourhood import LargeNeighbourhoodSearch
from planners.search.largest_first import LargestFirst
from planners.search.nests import Nests
from planners.search.order_search import OrderSearch
from planners.search.parts import Parts
from planners.search.reuse_search import with_least_cost
from planners.search.skyline import SkylineBeams
from planners.search.skyline_fills import SkylineFills
from planners.search.turns import ExactSearch, Search, Shared, Turns

NAME = "auto"

# The searches in the order of their turns. Skyline fills come before beams, because a beam takes
# less time with a better plan to start from.
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
# From this many blocks on, nests take their turn before the exact search. With fewer blocks, the
# exact search needs less time for problems that both can prove. A guess.
LEAST_BLOCKS_FOR_NESTS_FIRST = 500

# Without any limit the search ends after this many attempts times blocks, but makes at least
# LEAST_ATTEMPTS attempts. This takes seconds for a thousand tensors, and lets every greedy planner
# run at any size. Both are guesses.
DEFAULT_EFFORT = 30_000_000
LEAST_ATTEMPTS = 24


@register(
    NAME,
    summary="Greedy portfolio, pressure orders, then exact, beam and local searches until a proof",
    source="Gapless",
    memories=True,
)
def auto(problem: Problem, budget: Budget, without: Annotated[str, SomeOf(NAMES)] = "") -> Findings:
    """Plan any problem: look for quick proofs first, then search until the budget is spent.

    With a capacity, the first plan that fits is the answer; with prices of reuse as well, a search
    for a plan that costs less and a proof of the least cost go on from it, in turns. With a choice
    of memories the search for a plan that costs less is alone. A node limit counts attempts and
    nodes. All runs in one thread. The searches named in ``without``, joined by ``+``, take no
    turns. The statistics say how many turns each search had, and why others had none.
    """
    if problem.memories:
        return with_least_cost(problem, budget, Findings())
    left_out = frozenset(without.split("+"))
    found = plan_any(problem, budget, Resumable(problem), left_out)
    if not problem.cost_decides:
        return found
    return with_cost_turns(
        problem, with_node_limit(problem, budget, DEFAULT_EFFORT, LEAST_ATTEMPTS), found, search
    )


def plan_any(
    problem: Problem, budget: Budget, exact: ExactSearch, without: frozenset[str] = frozenset()
) -> Findings:
    """Plan any problem with an exact search as one of the searches.

    Note: why two rounds. Most problems have an order that meets a bound, and an attempt that only
    accepts the bound ends at the first block that exceeds it. So first every greedy planner and
    search is asked only for a proof, in the time that the greedy planners leave. After that they
    are asked for any plan better than the best. The pressure orders share more of their work than
    the portfolio. If they prove nothing, they end sooner, so they are asked first.
    """
    budget = with_node_limit(problem, budget, DEFAULT_EFFORT, LEAST_ATTEMPTS)
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
            lambda: turns.take(shared),
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
    """Ask all greedy planners and bounds only for a plan that meets the goal."""
    incumbent.ask_for_bounds()
    _run_pressure(incumbent, only_goal=True)
    portfolio.run_others(incumbent, only_goal=True)


def _run_pressure(incumbent: Incumbent, *, only_goal: bool) -> None:
    if incumbent.problem.safety is not Safety.PAIRS:
        PressureOrders(incumbent.problem, incumbent.bound).run(incumbent, only_goal=only_goal)
