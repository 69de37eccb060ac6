"""The planner to take without thinking: quick proofs first, then search as long as it may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count, islice

from planners.exact.branch_and_bound.branch_and_bound import Resumable
from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.greedy.pressure import PressureOrders
from planners.greedy.stages import plan_in_stages, with_node_limit
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.findings import Findings
from planners.model.plan import Plan
from planners.model.problem import Problem, Safety
from planners.registry import register
from planners.search.exact_step import ExactSearch, ExactStep
from planners.search.incumbent import Incumbent
from planners.search.large_neighbourhood import LargeNeighbourhoodSearch
from planners.search.largest_first import LargestFirst
from planners.search.nests import Nests, may_nest
from planners.search.order_search import OrderSearch
from planners.search.parts import Parts, may_have_parts
from planners.search.side_searches import search_in_threads
from planners.search.skyline import SkylineBeams, reason_against
from planners.search.skyline_fills import SkylineFills, may_fill

NAME = "auto"

# Without any limit the search ends after this many attempts times blocks, and has had this many
# attempts at least: seconds for a thousand tensors, and room for every greedy planner at any size.
DEFAULT_EFFORT = 30_000_000
LEAST_ATTEMPTS = 24

# A bit a pair, and a scan of what is placed a block: above this only windows are searched.
MOST_BLOCKS_IN_ROWS = 20_000
# Below this a window is hardly smaller than the whole.
LEAST_BLOCKS_FOR_WINDOWS = 500
# Below this the exact search needs less for what both can prove, and goes first.
LEAST_BLOCKS_FOR_NESTS_FIRST = 500
# Every turn is twice as long as the one before, up to a point: what is hard for one of the searches
# is often easy for another.
MOST_DOUBLINGS = 20
# What local search over orders does not place, the exact search places soon or not at all; and only
# where its nodes are cheap.
EXACT_NODES_A_WINDOW = 500
# A beam looks at every section for every block of every plan: above this it keeps others waiting.
MOST_BLOCKS_IN_BEAMS = 2_000
# Slices of the walk over orders in its first turn.
SLICES_A_TURN = 20
# Of the families of pressure orders, those in which what is alive at the peak comes first.
PEAK_FAMILIES = 14


@register(
    NAME,
    summary="Greedy portfolio, pressure orders, then exact, beam and local searches until a proof",
    source="Gapless",
)
def auto(problem: Problem, budget: Budget) -> Findings:
    """Plan any problem: take what proves itself at once, and search on where nothing does.

    Parameters
    ----------
    problem
        Any. With a capacity the first plan that fits is the answer.
    budget
        ``node_limit`` counts attempts and nodes, of each thread; further threads search with
        other seeds, and under a node limit the answer is never worse for them. The best plan so far
        is the answer when the time is over or Ctrl-C comes.

    Returns
    -------
    Findings
        ``statistics``: ``attempts``, and ``found_by`` of the best plan.
    """
    return plan_any(problem, budget, Resumable(problem))


def plan_any(problem: Problem, budget: Budget, exact: ExactSearch) -> Findings:
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
    return plan_in_stages(
        incumbent,
        [
            lambda: portfolio.run(incumbent, prove=lambda: _prove(incumbent, portfolio)),
            incumbent.ask_for_bounds,
            lambda: _run_pressure(incumbent, only_goal=False),
            lambda: _search_on(incumbent, threads, portfolio, exact),
        ],
    )


def _prove(incumbent: Incumbent, portfolio: Portfolio) -> None:
    """Ask everything for a plan that meets the goal, and for nothing less."""
    incumbent.ask_for_bounds()
    _run_pressure(incumbent, only_goal=True)
    portfolio.run_others(incumbent, only_goal=True)


def _run_pressure(incumbent: Incumbent, *, only_goal: bool) -> None:
    if incumbent.problem.safety is not Safety.PAIRS:
        PressureOrders(incumbent.problem, incumbent.bound).run(incumbent, only_goal=only_goal)


def _search_on(
    incumbent: Incumbent, threads: int, portfolio: Portfolio, exact: ExactSearch
) -> None:
    search_in_threads(
        incumbent,
        threads,
        lambda main: _take_turns(main, _searches(main, portfolio, exact)),
        lambda side: _take_turns(side, _seeded_searches(side, portfolio, branch_and_bound)),
    )


def _take_turns(incumbent: Incumbent, searches: list[Callable[[int], object]]) -> None:
    for turn in count():
        for search in searches:
            if incumbent.over:
                return
            search(1 << min(turn, MOST_DOUBLINGS))


def _searches(
    incumbent: Incumbent, portfolio: Portfolio, exact: ExactSearch
) -> list[Callable[[int], object]]:
    """Return the searches that take turns; each is told how long its turn is."""
    problem = incumbent.problem
    step = ExactStep(incumbent, exact, NAME)
    searches: list[Callable[[int], object]] = []
    if step.applies:
        searches.append(step.run)
    if may_nest(problem):
        is_first = problem.blocks.count >= LEAST_BLOCKS_FOR_NESTS_FIRST
        nests = Nests(incumbent, partial(plan_any, exact=exact), NAME)
        searches.insert(0 if is_first else len(searches), nests.run)
    if may_have_parts(problem):
        searches.append(Parts(incumbent).run)
    searches += _seeded_searches(incumbent, portfolio, exact)
    return [*searches, lambda _: incumbent.ask_for_bounds()]


def _seeded_searches(
    incumbent: Incumbent, portfolio: Portfolio, exact: ExactSearch
) -> list[Callable[[int], object]]:
    """Return the searches that find other plans with another seed."""
    problem = incumbent.problem
    searches: list[Callable[[int], object]] = []
    # Before beams: the better the plan that they start from, the less time they take.
    if may_fill(problem):
        searches.append(SkylineFills(incumbent).run)
    if problem.blocks.count <= MOST_BLOCKS_IN_BEAMS and not reason_against(problem):
        searches.append(SkylineBeams(incumbent, problem.blocks.count).run)
    if problem.blocks.count <= MOST_BLOCKS_IN_ROWS:
        walk = OrderSearch(incumbent, [order for _, order in portfolio.orders()])
        searches.append(lambda length: walk.walk(SLICES_A_TURN * length))
        descents = LargestFirst(incumbent, partial(_peak_orders, incumbent, portfolio))
        if descents.applies:
            searches.append(descents.run)
    if problem.blocks.count >= LEAST_BLOCKS_FOR_WINDOWS:
        windows = LargeNeighbourhoodSearch(incumbent, partial(place_window, exact=exact))
        searches.append(windows.improve)
    return searches


def _peak_orders(incumbent: Incumbent, portfolio: Portfolio) -> list[IntColumn]:
    """Return orders in which what is alive at the peak comes first, where that is known."""
    if incumbent.problem.safety is Safety.PAIRS:
        return [order for _, order in portfolio.orders()]
    families = PressureOrders(incumbent.problem, incumbent.bound).families()
    return [order for _, orders in islice(families, PEAK_FAMILIES) for _, order in orders]


def place_window(
    problem: Problem, budget: Budget, exact: ExactSearch = branch_and_bound
) -> tuple[Plan | None, int]:
    """Look for a plan that fits: greedy by size, local search over orders, then exactly."""
    assert problem.capacity is not None
    incumbent = Incumbent(problem, budget, problem.capacity)
    portfolio = Portfolio(problem)
    portfolio.run_first(incumbent)
    if not incumbent.over:
        OrderSearch(incumbent, [order for _, order in portfolio.orders()]).run()
    assert incumbent.best is not None
    nodes = incumbent.count
    if incumbent.best.peak > problem.capacity and not problem.contiguous:
        answer = exact(problem, replace(budget, node_limit=EXACT_NODES_A_WINDOW), incumbent.best)
        nodes += EXACT_NODES_A_WINDOW
        if answer.plan is not None:
            incumbent.offer(answer.plan, "exact search")
        if answer.interrupted:
            raise KeyboardInterrupt
    return incumbent.best if incumbent.best.peak <= problem.capacity else None, nodes
