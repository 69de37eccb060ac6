"""The search for a plan whose reuse costs least; ``test_least_cost.py`` has brute force."""

from __future__ import annotations

import math
import signal
from random import Random

import pytest

from planners import Budget, Problem, Safety, Status, run
from planners.compare import report
from planners.compare.comparison import compare_planners
from planners.files.problem_file import problem_digest
from planners.greedy.reuse_start import reuse_search
from planners.model.places import block_ranges
from planners.registry import choose
from planners.testing.random_problems import random_problem, with_prices

pytestmark = pytest.mark.core

# Two tensors of 4 and one of 2 bytes, never live at once, in 6 bytes: all pairs have a price.
PRICED = Problem(
    [4, 4, 2], [0, 2, 4], [2, 4, 6], reuse_prices=[(0, 1, 3), (1, 2, 1), (0, 2, 5)], capacity=6
)


def test_a_plan_without_cost_is_optimal() -> None:
    free = PRICED.with_capacity(10)
    assert (run(free, "auto").status, run(free, "auto").cost) == (Status.OPTIMAL, 0)
    result = run(PRICED, "auto")
    assert (result.status, result.cost, result.cost_bound, result.peak) == (Status.OPTIMAL, 3, 3, 6)


def test_without_a_capacity_the_peak_decides() -> None:
    result = run(PRICED.with_capacity(None), "auto")
    assert (result.status, result.peak, result.cost) == (Status.OPTIMAL, 4, 9)


def test_the_cheapest_rows_come_first_and_are_marked() -> None:
    compared = compare_planners(PRICED, choose("greedy-size-first,auto"), Budget())
    rows = report.sorted_rows(compared)
    assert [(row.label, row.result.cost) for row in rows] == [
        ("auto", 3), ("greedy-size-first", 9),
    ]  # fmt: skip
    assert [report.is_best(compared, row) for row in rows] == [True, False]
    table = report.comparison_table(compared, rows).plain()
    assert "cost" in table.splitlines()[0]


def test_prices_change_no_digest() -> None:
    assert problem_digest(PRICED) == problem_digest(PRICED.select(range(3), reuse_prices=[]))


def test_a_node_limit_and_a_seed_repeat_the_search() -> None:
    rng = Random(5)
    problem = with_prices(rng, random_problem(rng, Safety.LIFETIMES, 40, features=frozenset()))
    costs = [run(problem, "auto", Budget(node_limit=2000, seed=3)) for _ in range(2)]
    offsets = [result.plan.offsets.tolist() for result in costs if result.plan is not None]
    assert len(offsets) == 2
    assert offsets[0] == offsets[1]


def test_a_handler_of_signals_cannot_use_the_search_that_it_interrupts() -> None:
    search = reuse_search(PRICED, block_ranges(PRICED), None, seed=0)
    refused = []

    def handler(_number: int, _frame: object) -> None:
        for call in (lambda: search.run(1, 0, 1.0), search.best):
            with pytest.raises(RuntimeError, match="one question at a time") as error:
                call()
            refused.append(str(error.value).partition(":")[0])
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            search.run(1 << 62, -1, math.inf)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert refused == ["ReuseSearch.run", "ReuseSearch.best"]
    assert search.best()[:2] == (0, 3)
