"""The skyline beam against exact search, the referee, and packings whose optimum is known."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import (
    chained_packing,
    guillotine_packing,
    multi_stream_packing,
    non_guillotine_packing,
)
from planners import Budget, Plan, Problem, Safety, Status, _core, bounds_of, run
from planners.referee.naive import find_violation
from tests.random_problems import SOLVABLE, random_problem

pytestmark = pytest.mark.core


def beam(problem: Problem, capacity: int, width: int, seed: int = 0) -> Plan | None:
    offsets, skylines, _ = _core.beam_over_skylines(
        problem.core, capacity, width, _core.NO_LIMIT, seed, float("inf")
    )
    assert skylines > 0 or not len(offsets)
    return Plan.of(problem, offsets) if len(offsets) else None


@pytest.mark.parametrize(("features", "least"), [(frozenset(), 150), (SOLVABLE, 120)])
def test_plans_are_valid_and_mostly_optimal(features: frozenset[str], least: int) -> None:
    found = 0
    for seed in range(150):
        rng = Random(f"skyline {seed}")
        problem = random_problem(rng, Safety.LIFETIMES, (1, 14), features=features)
        exact = run(problem, "branch-and-bound")
        assert exact.plan is not None
        optimum = exact.plan.peak
        assert beam(problem, optimum - 1, 8) is None
        for capacity in (optimum, optimum + rng.randint(1, 9)):
            plan = beam(problem, capacity, 8)
            if plan is not None:
                assert find_violation(problem, plan) is None
                assert plan.peak <= capacity
                found += capacity == optimum
    assert found >= least


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "problem",
    [
        guillotine_packing(100, seed=1),
        non_guillotine_packing(40, seed=1),
        chained_packing(100, seed=1),
    ],
    ids=lambda problem: problem.name,
)
def test_packings_without_loss_are_found(problem: Problem, seed: int) -> None:
    result = run(problem, "skyline", Budget(node_limit=200_000, seed=seed))
    assert result.status is Status.OPTIMAL
    assert result.peak == problem.origin["optimum"]


def test_a_chain_reaches_over_what_comes_beneath_it_later() -> None:
    # bytes  step 0 1 2
    #   3    b b b
    #   2    a . c     b is the end of a, and lies over c, which is put below it
    #   1    a d d
    problem = Problem([2, 1, 1, 1], [0, 0, 2, 1], [1, 3, 3, 3], contiguous=[(0, 1)])
    plan = beam(problem, 3, 4)
    assert plan is not None
    assert find_violation(problem, plan) is None


def test_a_seed_makes_the_same_plan_again() -> None:
    problem = guillotine_packing(150, seed=3)
    budget = Budget(node_limit=20_000, seed=5)
    plans = [run(problem, "skyline", budget).plan for _ in range(2)]
    assert plans[0] is not None
    assert plans[1] is not None
    assert np.array_equal(plans[0].offsets, plans[1].offsets)


def test_no_more_skylines_are_looked_at_than_allowed() -> None:
    problem = guillotine_packing(200, seed=3)
    height = max(bound.bytes for bound in bounds_of(problem))
    offsets, skylines, whole = _core.beam_over_skylines(problem.core, height, 50, 99, 0, 60.0)
    assert skylines == 99
    assert not whole
    assert not len(offsets)


def test_rows_of_unsafe_pairs_have_no_skyline() -> None:
    problem = Problem([1, 1], unsafe_pairs=[(0, 1)])
    with pytest.raises(ValueError, match="sections of lifetimes are needed"):
        beam(problem, 2, 1)
    result = run(problem, "skyline")
    assert result.status is Status.UNSUPPORTED
    assert "explicit pairs" in result.reason


def test_several_streams_have_a_greedy_plan() -> None:
    problem = multi_stream_packing(60, seed=2)
    result = run(problem, "skyline")
    assert result.status is Status.FEASIBLE
    assert result.reason.startswith("several streams")


def test_a_beam_has_a_width() -> None:
    with pytest.raises(ValueError, match="at least 1 is needed, found 0"):
        beam(Problem([1], [0], [1]), 1, 0)
