"""The search that goes on where it stopped: as good as one that never did."""

from __future__ import annotations

import random

import pytest

from planners import Budget, Problem, Safety, check, place
from planners.exact.branch_and_bound.branch_and_bound import Resumable
from tests.planners.exact.brute_force import optimal_peak
from tests.random_problems import SOLVABLE, random_problem

RING = Problem([2] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
TURNS, NODES = 40, 25


@pytest.mark.parametrize("safety", Safety)
def test_turns_end_in_the_optimum(safety: Safety) -> None:
    for seed in range(40):
        problem = random_problem(
            random.Random(f"resumable {safety} {seed}"), safety, (1, 6), features=SOLVABLE
        )
        search, best, bound = Resumable(problem), place(problem, "source"), 0
        for _ in range(TURNS):
            answer = search(problem, Budget(node_limit=NODES).started(), best)
            assert answer.statistics.get("nodes", 0) <= NODES
            assert answer.plan is not None
            check(problem, answer.plan)
            assert answer.plan.peak <= best.peak
            # What one turn proved is not forgotten in the next.
            assert answer.lower_bound >= bound
            best, bound = answer.plan, answer.lower_bound
            if best.peak == bound:
                break
        assert (best.peak, bound) == (optimal_peak(problem),) * 2


def test_a_better_plan_from_elsewhere_is_taken_over() -> None:
    worse, best = place(RING, [4.0, 3.0, 2.0, 1.0, 0.0]), place(RING)
    search = Resumable(RING)
    search(RING, Budget(node_limit=1).started(), worse)
    answer = search(RING, Budget(node_limit=100).started(), best)
    assert answer.plan is not None
    assert answer.plan.peak == answer.lower_bound == best.peak


def test_another_problem_is_searched_afresh() -> None:
    search = Resumable(RING)
    search(RING, Budget(node_limit=1).started(), place(RING))
    other = Problem([3, 2], [0, 0], [1, 1])
    answer = search(other, Budget().started(), None)
    assert answer.plan is not None
    assert answer.plan.peak == answer.lower_bound == 5
