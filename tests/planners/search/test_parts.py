"""Parts: sets of tensors that the others see as one, and plans made of theirs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import multi_stream_packing
from planners import Budget, Safety, Status, run
from planners.greedy.portfolio import Portfolio
from planners.referee.naive import find_violation
from planners.search.incumbent import Incumbent
from planners.search.parts import Parts, find_parts
from tests.random_problems import random_problem


def random_relation(rng: Random, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    unsafe = np.zeros((count, count), dtype=np.bool_)
    for a in range(count):
        for b in range(a):
            unsafe[a, b] = unsafe[b, a] = rng.random() < 0.5
    return unsafe


def test_every_other_tensor_sees_a_part_as_one() -> None:
    larger = 0
    for seed in range(200):
        rng = Random(f"parts {seed}")
        unsafe = random_relation(rng, rng.randint(1, 9))
        parts = find_parts(unsafe)
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(unsafe)))
        for part in parts:
            outside = np.setdiff1d(np.arange(len(unsafe)), part)
            seen = unsafe[np.ix_(outside, part)]
            assert (seen == seen[:, :1]).all()
            larger += len(part) > 1
    assert larger > 50


def test_plans_of_parts_make_a_plan_of_the_whole() -> None:
    planned = 0
    for seed in range(60):
        problem = random_problem(
            Random(f"parts {seed}"), Safety.GRAPH, (2, 14), features=frozenset()
        )
        if Parts.reason_against(problem):
            continue
        incumbent = Incumbent(problem, Budget(node_limit=500))
        Portfolio(problem).run_first(incumbent)
        incumbent.ask_for_bounds()
        Parts(incumbent).run(1)
        assert incumbent.best is not None
        assert find_violation(problem, incumbent.best) is None
        planned += 1
    assert planned > 20


@pytest.mark.parametrize("tensors", [100, 300])
def test_regions_of_streams_are_found(tensors: int) -> None:
    problem = multi_stream_packing(tensors, seed=0)
    result = run(problem, "auto", Budget(node_limit=300_000))
    assert result.status is Status.OPTIMAL
