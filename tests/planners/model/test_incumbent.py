"""Placement below a limit, and local search over orders, against whole placements."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from instances.synthetic import random_lifetimes
from planners import Budget, Problem, Safety, _core, check
from planners.greedy.naive import naive
from planners.greedy.place import place_better, place_blocks
from planners.greedy.portfolio import Portfolio
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.plan import Plan
from planners.referee.naive import find_violation
from planners.search.auto import SEARCHES
from planners.search.exact_step import ExactStep
from planners.search.turns import Search, Shared, Turns
from planners.testing.random_problems import SOLVABLE, random_problem

Order = NDArray[np.int32]

pytestmark = pytest.mark.core


def some_problems(count: int) -> list[tuple[Random, Problem]]:
    problems = []
    for seed in range(count):
        rng = Random(f"attempts {seed}")
        safety = list(Safety)[seed % 3]
        problems.append((rng, random_problem(rng, safety, (1, 20), features=SOLVABLE)))
    return problems


def some_order(rng: Random, problem: Problem) -> Order:
    blocks = problem.blocks.count
    return np.array(rng.sample(range(blocks), blocks), dtype=np.int32)


@pytest.mark.parametrize("objects", [False, True])
@pytest.mark.parametrize("fit", ["first", "best"])
def test_a_limit_stops_at_the_first_block_that_passes_it(fit: str, objects: bool) -> None:
    for rng, problem in some_problems(60):
        if objects and (problem.pinned >= 0).any():
            continue
        order = some_order(rng, problem)
        whole = place_blocks(problem, order, fit, objects=objects)
        assert whole.plan is not None
        assert whole.placed == len(order)
        ends = np.zeros(problem.blocks.count, dtype=np.int64)
        np.maximum.at(ends, problem.blocks.block_of, whole.plan.offsets + problem.size)
        below = rng.randint(1, whole.plan.peak + 1)
        attempt = place_blocks(problem, order, fit, objects=objects, below=below)
        too_high = np.flatnonzero(ends[order] >= below)
        if len(too_high):
            assert attempt.plan is None
            assert attempt.placed == too_high[0]
        else:
            assert attempt.plan is not None
            assert attempt.plan.offsets.tolist() == whole.plan.offsets.tolist()


def search(problem: Problem, order: Order, limit: int, rng: Random) -> tuple[IntColumn, Order, int]:
    rows = problem.core.with_rows()
    offsets, after, made, none = _core.search_orders(
        rows, order, limit, 200, rng.getrandbits(64), 9.0
    )
    # The search says that it is done, with or without a plan, or it has made all attempts.
    assert len(offsets) or none or made == 200
    return offsets, after, made


def test_local_search_finds_first_fit_plans_below_the_limit() -> None:
    found = 0
    for rng, problem in some_problems(120):
        start = place_blocks(problem, some_order(rng, problem)).plan
        assert start is not None
        offsets, order, made = search(problem, some_order(rng, problem), start.peak, rng)
        assert made <= 200
        assert sorted(order.tolist()) == list(range(problem.blocks.count))
        if len(offsets):
            found += 1
            plan = Plan.of(problem, offsets)
            check(problem, plan)
            assert plan.peak < start.peak
            again = place_blocks(problem, order, below=start.peak).plan
            assert again is not None
            assert again.offsets.tolist() == plan.offsets.tolist()
    assert found > 20


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.name)
def test_without_time_no_search_takes_a_turn_or_makes_an_attempt(search: type[Search]) -> None:
    problem = random_lifetimes(600, seed=1)
    incumbent = Incumbent(problem, replace(Budget(), deadline=-math.inf))
    incumbent.offer(naive(problem, Budget()), "naive")
    shared, turns = Shared(incumbent, Portfolio(problem)), Turns([search], ())
    turns.take(shared)
    assert turns.statistics["turns"] == "none"
    assert (incumbent.over, incumbent.is_decided) == (True, False)
    assert incumbent.findings().reason == "time limit"
    if search is not ExactStep and search.reason_against(problem) is None:
        with suppress(TimeoutError):
            search(shared).run(1)
        assert incumbent.count == 0


def test_attempts_keep_the_best_plan_and_its_name() -> None:
    problem = Problem([3, 2, 2], [0, 0, 2], [2, 4, 4])
    attempts = Incumbent(problem, Budget(node_limit=3).started(), target=5)
    attempts.offer(naive(problem, Budget()), "naive")
    assert not attempts.over
    assert place_better(attempts, np.array([2, 1, 0], dtype=np.int32), "bad", only_goal=True) == 2
    assert attempts.found_by == "naive"
    assert place_better(attempts, np.array([0, 1, 2], dtype=np.int32), "good") == 3
    assert attempts.best is not None
    assert find_violation(problem, attempts.best) is None
    assert (attempts.found_by, attempts.count, attempts.most(9)) == ("good", 2, 1)
    assert attempts.over
