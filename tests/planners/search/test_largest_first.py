"""LargestFirst: levels of falling size, plans that hold, and bounds that nothing else meets."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from planners import Budget, Problem, Safety, Status, check, place, read_problem, run
from planners.greedy.portfolio import Portfolio
from planners.model.incumbent import Incumbent
from planners.search.largest_first import LEAST_GROWTH, LargestFirst, levels_of
from planners.search.turns import Shared
from planners.testing.random_problems import SOLVABLE, random_problem
from tests.slow import one_by_one


@pytest.mark.parametrize("safety", Safety)
def test_every_plan_is_valid_and_better_than_the_one_before(safety: Safety) -> None:
    better = 0
    for seed in range(60):
        rng = Random(f"levels {safety} {seed}")
        problem = random_problem(rng, safety, (5, 30), features=SOLVABLE)
        incumbent = Incumbent(problem, Budget(node_limit=20_000, seed=seed).started())
        worst = place(problem, [rng.random() for _ in range(problem.tensor_count)])
        incumbent.offer(worst, "at random")
        incumbent.ask_for_bounds()
        search = LargestFirst(Shared(incumbent, Portfolio(problem)))
        for _ in range(4):
            search.run(1)
        assert incumbent.best is not None
        check(problem, incumbent.best)
        assert incumbent.count <= 20_000
        better += incumbent.best.peak < worst.peak
    assert better > 5


def test_levels_fall_to_all_blocks_and_grow() -> None:
    size = np.array([1 << shift for shift in range(20)] * 3)
    levels = levels_of(size)
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] == 0
    counts = [int((size >= level).sum()) for level in levels]
    assert counts[-1] == len(size)
    for few, more in pairwise(counts[:-1]):
        assert more > LEAST_GROWTH * few
    assert levels_of(np.array([7, 7, 7])) == [0]
    assert levels_of(np.array([], dtype=np.int64)) == [0]


def test_blocks_of_one_size_make_no_levels() -> None:
    problem = Problem([4, 4, 4], [0, 1, 2], [2, 3, 4])
    assert LargestFirst.reason_against(problem) == "sizes make a single level"


def perturbed(problem: Problem, seed: int) -> Problem:
    """Return the problem with the sizes of each operator a few per cent smaller, by one factor."""
    assert problem.graph is not None
    rng = Random(seed)
    factor = {op: rng.uniform(0.95, 1) for op in sorted(set(problem.graph.op))}
    scale = np.array([factor[problem.graph.op[node]] for node in problem.graph.producer.tolist()])
    size = np.maximum((problem.size * scale).astype(np.int64), np.minimum(problem.size, 1))
    return problem.select(np.arange(problem.tensor_count), size=size)


@one_by_one("seed", [1, None], first=1)
def test_a_training_step_on_streams_is_proven_as_it_is_and_perturbed(seed: int | None) -> None:
    problem = read_problem("instances/vit-base.json.gz")
    if seed is not None:
        problem = perturbed(problem, seed)
    result = run(problem, "auto", Budget(node_limit=400_000))
    assert result.plan is not None
    check(problem, result.plan)
    assert result.status is Status.OPTIMAL
