"""The pressure planner: its levels, its orders, and what it reaches."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import random_lifetimes, training_graph, training_trace
from planners import Budget, Problem, Safety, Status, check, get, place, run
from planners.greedy.pressure import KEYS, pressures, two_level_orders
from tests.random_problems import random_problem

# bytes        step 0 1 2 3 4 5
#   4  . . . . b b
#   3  a a . . b b      live: 3 5 2 2 6 5
#   2  a c c c c .      pressure: a 5, b 6, c 6
PROBLEM = Problem([3, 4, 2], [0, 4, 1], [2, 6, 5])


def test_pressure_is_the_most_that_is_alive_within_a_lifetime() -> None:
    assert pressures(PROBLEM).tolist() == [5, 6, 6]


@pytest.mark.parametrize("seed", range(20))
def test_pressure_by_brute_force(seed: int) -> None:
    problem = random_lifetimes(40, seed=seed)
    alive = [
        sum(int(problem.size[t]) for t in range(40) if problem.start[t] <= step < problem.end[t])
        for step in range(int(problem.end.max()))
    ]
    expected = [max(alive[a:b]) for a, b in zip(problem.start, problem.end, strict=True)]
    assert pressures(problem).tolist() == expected


@pytest.mark.parametrize("seed", range(40))
def test_pressure_with_gaps_by_brute_force(seed: int) -> None:
    problem = random_problem(Random(seed), Safety.LIFETIMES, (1, 9))
    rows = problem.segments().tolist()

    def live(step: int) -> int:
        return sum(int(problem.size[t]) for t, begin, end in rows if begin <= step < end)

    expected = [
        max(map(live, range(begin, end)))
        for begin, end in zip(problem.start.tolist(), problem.end.tolist(), strict=True)
    ]
    assert pressures(problem).tolist() == expected


def test_tensors_of_the_tightest_step_come_first() -> None:
    orders = dict(two_level_orders(PROBLEM))
    assert orders["1.0: largest, then largest"].tolist() == [2, 0, 1]
    assert orders["1.0: earliest start, then largest"].tolist() == [2, 1, 0]
    # All tensors are above 0.8 of the maximum: one level, and only the first key counts.
    assert orders["0.8: earliest end, then largest"].tolist() == [0, 2, 1]
    assert "0.8: largest, then earliest end" not in orders
    assert not any(name.startswith(("0.5", "0.0")) for name in orders)


def test_it_proves_what_greedy_by_size_misses() -> None:
    toy = Problem([1024, 768, 640, 512, 256], [0, 3, 1, 4, 2], [2, 5, 3, 6, 5])
    assert place(toy, "size").peak == 1920
    result = run(get("pressure"), toy)
    assert (result.status, result.peak, result.certificate) == (Status.OPTIMAL, 1664, "lifetime")


@pytest.mark.parametrize(
    "problem",
    [
        training_trace(2_000),
        training_graph(300, streams=4, chains=6, seed=3),
        random_lifetimes(200, seed=1),
        PROBLEM,
    ],
    ids=lambda problem: problem.name,
)
def test_it_is_never_worse_than_first_fit_by_its_own_keys(problem: Problem) -> None:
    result = run(get("pressure"), problem)
    assert result.plan is not None
    check(problem, result.plan)
    single_level = [place(problem, key(problem)).peak for key in KEYS.values()]
    assert result.plan.peak <= min(single_level)


def test_a_node_limit_counts_attempts() -> None:
    problem = random_lifetimes(200, seed=4)
    result = run(get("pressure"), problem, Budget(node_limit=3))
    assert result.statistics["attempts"] == 3
    again = run(get("pressure"), problem, Budget(node_limit=3))
    assert result.plan is not None
    assert again.plan is not None
    assert np.array_equal(result.plan.offsets, again.plan.offsets)
