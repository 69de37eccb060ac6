"""The pressure planner: its levels, its orders, and what it reaches."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import random_lifetimes, training_graph, training_trace
from planners import (
    Budget,
    Graph,
    Problem,
    Safety,
    bounds_of,
    check,
    get,
    place,
    run,
)
from planners.greedy.pressure import KEYS, PressureOrders, pressures
from planners.testing.random_problems import random_problem

# bytes        step 0 1 2 3 4 5
#   4  . . . . b b
#   3  a a . . b b      live: 3 5 2 2 6 5
#   2  a c c c c .      pressure: a 5, b 6, c 6
PROBLEM = Problem([3, 4, 2], [0, 4, 1], [2, 6, 5])


@pytest.mark.parametrize(
    "problem",
    [
        *(random_lifetimes(40, seed=seed) for seed in range(20)),
        *(random_problem(Random(seed), Safety.LIFETIMES, (1, 9)) for seed in range(40)),
    ],
)
def test_pressure_by_brute_force(problem: Problem) -> None:
    rows = problem.segments().tolist()
    first, last = int(problem.start.min()), int(problem.end.max())
    live = {
        step: sum(int(problem.size[t]) for t, begin, end in rows if begin <= step < end)
        for step in range(first, last)
    }
    expected = [
        max(live[step] for step in range(begin, end))
        for begin, end in zip(problem.start.tolist(), problem.end.tolist(), strict=True)
    ]
    assert pressures(problem).tolist() == expected


def orders_of(problem: Problem) -> dict[str, list[int]]:
    bound = max(bounds_of(problem), key=lambda bound: bound.bytes)
    return {
        name: order.tolist()
        for _, family in PressureOrders(problem, bound).families()
        for name, order in family
    }


def test_tensors_of_the_tightest_step_come_first() -> None:
    orders = orders_of(PROBLEM)
    assert orders["1.0: largest, then largest"] == [1, 2, 0]
    assert orders["1.0: earliest start, then largest"] == [2, 1, 0]
    # All tensors are above 0.8 of the maximum: one level, and only the first key counts.
    assert orders["0.8: earliest end"] == [0, 2, 1]
    assert "0.8: largest, then earliest end" not in orders
    assert not any(name.startswith(("0.5", "0.0")) for name in orders)


def test_below_the_first_level_pressure_falls_in_steps() -> None:
    # Live bytes 1, 5, 2, 100 at four steps: between the lower ones lies less than a step.
    problem = Problem([1, 40, 2, 100], [0, 1, 2, 3], [1, 2, 3, 4])
    orders = orders_of(problem)
    assert orders["1.0: largest, then earliest start"] == [3, 0, 1, 2]
    assert orders["steps: largest, then earliest start"] == [3, 1, 0, 2]


def test_a_chain_is_as_urgent_as_its_most_urgent_tensor() -> None:
    # Tensor 0 dies long before the tightest step, but its chain reaches into it.
    problem = Problem([1, 8, 4], [0, 5, 2], [1, 6, 3], contiguous=[(0, 1)])
    assert orders_of(problem)["1.0: earliest end, then largest"] == [0, 1]


def test_the_heaviest_antichain_comes_first() -> None:
    """Two streams side by side: no step of the global order has both of the large tensors."""
    graph = Graph(
        op=["a", "b", "c", "d", "e"],
        stream=[0, 0, 1, 1, 0],
        producer=[0, 2, 4],
        consumers=[[1], [3], []],
    )
    problem = Problem([6, 5, 7], graph=graph)
    bound = max(bounds_of(problem), key=lambda bound: bound.bytes)
    assert bound.name == "antichain"
    assert set(bound.witness.tolist()) == {1, 2}
    assert orders_of(problem)["1.0: largest, then largest"] == [2, 1, 0]


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
    result = run(problem, get("pressure"))
    assert result.plan is not None
    check(problem, result.plan)
    single_level = [place(problem, key(problem)).peak for key in KEYS.values()]
    assert result.plan.peak <= min(single_level)


def test_a_node_limit_counts_attempts() -> None:
    problem = random_lifetimes(200, seed=4)
    result = run(problem, get("pressure"), Budget(node_limit=3))
    assert result.statistics["attempts"] == 3
    again = run(problem, get("pressure"), Budget(node_limit=3))
    assert result.plan is not None
    assert again.plan is not None
    assert np.array_equal(result.plan.offsets, again.plan.offsets)
