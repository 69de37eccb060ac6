"""The share of unsafe pairs, against the referee, and where counting would take long."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from planners import Budget, Plan, Problem, Safety, get
from planners.compare.comparison import MAX_PAIRS_WITH_GAPS, Comparison, compare_planners
from planners.compare.report import instance_line
from planners.referee.naive import find_violation
from tests.random_problems import random_problem


def compared(problem: Problem) -> Comparison:
    return compare_planners(problem, [get("naive")], Budget())


def unsafe_pairs(problem: Problem) -> int:
    """Lay two tensors over each other, all others apart, and let the referee object."""
    tensors = problem.tensor_count
    bare = Problem(
        np.ones(tensors, dtype=np.int64),
        *((problem.start, problem.end) if problem.safety is Safety.LIFETIMES else ()),
        graph=problem.graph,
        unsafe_pairs=problem.unsafe_pairs,
        gaps=problem.gaps,
    )
    objections = 0
    for a in range(tensors):
        for b in range(a):
            offsets = np.arange(tensors)
            offsets[a] = offsets[b]
            objections += find_violation(bare, Plan.of(bare, offsets)) is not None
    return objections


@pytest.mark.parametrize("safety", Safety)
def test_the_share_is_what_the_referee_objects_to(safety: Safety) -> None:
    rng = Random(13)
    shares = set()
    for _ in range(40):
        problem = random_problem(rng, safety, (2, 8))
        share = compared(problem).unsafe_share
        pairs = problem.tensor_count * (problem.tensor_count - 1) // 2
        assert share == unsafe_pairs(problem) / pairs
        shares.add(share)
    assert len(shares) > 5


@pytest.mark.parametrize("tensors", [0, 1])
def test_without_pairs_there_is_no_share(tensors: int) -> None:
    comparison = compared(Problem([1] * tensors, [0] * tensors, [1] * tensors))
    assert comparison.unsafe_share is None
    assert "pairs" not in instance_line(comparison)


def test_lifetimes_take_no_matrix() -> None:
    tensors = 400_000  # 80 GB as a byte a pair, 20 GB as a bit
    start = np.arange(tensors)
    comparison = compare_planners(
        Problem(np.ones(tensors, dtype=np.int64), start, start + 2), [], Budget()
    )
    assert comparison.unsafe_pairs == tensors - 1
    assert "chains; <0.001 % of pairs unsafe; naive" in instance_line(comparison)


def test_gaps_of_very_many_are_not_counted() -> None:
    tensors = int(MAX_PAIRS_WITH_GAPS**0.5) + 1
    rows = [(tensor, 1, 2) for tensor in range(tensors)]
    ones = np.ones(tensors, dtype=np.int64)
    start = np.zeros(tensors, dtype=np.int64)
    comparison = compare_planners(Problem(ones, start, start + 3, gaps=rows), [], Budget())
    assert comparison.unsafe_share is None
    assert "pairs" not in instance_line(comparison)
