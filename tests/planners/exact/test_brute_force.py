"""The oracle itself, against every offset there is."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from planners import Plan, Problem, Safety, run
from planners.referee.naive import find_violation
from planners.registry import get
from planners.testing.random_problems import random_problem
from tests.planners.exact.brute_force import optimal_peak

HIGHEST = 11


def least_peak_of_all_offsets(problem: Problem) -> int | None:
    """Try every offset below ``HIGHEST`` for every tensor."""
    peaks = []
    for offsets in product(range(HIGHEST), repeat=problem.tensor_count):
        plan = Plan.of(problem, np.array(offsets, dtype=np.int64))
        if find_violation(problem, plan) is None:
            peaks.append(plan.peak)
    return min(peaks, default=None)


@pytest.mark.parametrize("safety", Safety)
def test_no_offsets_are_better(safety: Safety) -> None:
    rng = random.Random(5)
    compared = 0
    while compared < 15:
        problem = random_problem(rng, safety, (0, 3))
        if problem.size.sum() + problem.alignment.sum() + problem.pinned.max(initial=0) > HIGHEST:
            continue
        compared += 1
        optimum = least_peak_of_all_offsets(problem)
        assert optimal_peak(problem) == optimum
        if optimum is not None:
            assert optimal_peak(problem, below=optimum) is None
            assert optimal_peak(problem, below=optimum + 1) == optimum


def test_takes_the_hole_of_a_chain() -> None:
    """Tensor 2 lies beside the safe middle of the chain, not above its end.

    ::

        4 |  bbbb            0, 1, 2 are a chain; 3 is unsafe with 0 and 2 only
        2 |  -11- 3333
        0 |  aaaa
    """
    problem = Problem([2, 2, 2, 2], unsafe_pairs=[(0, 3), (2, 3)], contiguous=[(0, 1, 2)])
    assert optimal_peak(problem) == 6
    assert run(problem, get("cp-sat")).peak == 6
