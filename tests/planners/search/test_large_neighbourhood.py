"""LargeNeighbourhoodSearch: parts of a problem whose plans fit back into the whole."""

from __future__ import annotations

from random import Random

import pytest

from instances.synthetic import random_lifetimes, training_graph
from planners import Budget, Plan, Problem, Safety, bounds_of, check, place, run
from planners.greedy.portfolio import Portfolio
from planners.model.columns import IntColumn
from planners.model.incumbent import Incumbent
from planners.model.plan import Status
from planners.registry import get
from planners.search.large_neighbourhood import LargeNeighbourhoodSearch, Subproblem
from planners.search.turns import Shared
from planners.testing.random_problems import SOLVABLE, random_problem


def heads_of(problem: Problem, plan: Plan) -> IntColumn:
    blocks = problem.blocks
    return plan.offsets[blocks.members[blocks.indptr[:-1]]].copy()


@pytest.mark.parametrize("safety", Safety)
def test_a_plan_of_a_part_fits_back_into_the_whole(safety: Safety) -> None:
    moved = 0
    for seed in range(80):
        rng = Random(f"window {safety} {seed}")
        problem = random_problem(rng, safety, (1, 14), features=SOLVABLE)
        order = [rng.random() for _ in range(problem.tensor_count)]
        plan = place(problem, order)
        blocks = problem.blocks.count
        free = rng.sample(range(blocks), rng.randint(1, blocks))
        # With the old peak as capacity the old plan itself fits.
        heads = heads_of(problem, plan)
        window = Subproblem(problem, free, heads, plan.peak)
        answer = run(window.problem, get("cp-sat"))
        assert answer.status in (Status.OPTIMAL, Status.FEASIBLE)
        assert answer.plan is not None
        before = heads.tolist()
        window.write_heads(answer.plan, heads)
        moved += heads.tolist() != before
        whole = Plan.of_blocks(problem, heads)
        check(problem, whole)
        assert whole.peak <= plan.peak
    assert moved > 10


def test_a_tensor_above_the_capacity_is_cut_and_stays_in_the_way() -> None:
    # bytes  step 0 1
    #   3    b b      b reaches above the capacity of 2 that a is to fit
    #   2    b b
    #   1    . a
    problem = Problem([1, 2], [1, 0], [2, 2])
    plan = Plan.of(problem, [0, 1])
    window = Subproblem(problem, [0], heads_of(problem, plan), capacity=2)
    assert window.problem.size.tolist() == [1, 1]
    assert window.problem.pinned.tolist() == [-1, 1]
    above = Subproblem(problem, [0], heads_of(problem, plan), capacity=1)
    assert above.problem.size.tolist() == [1]


@pytest.mark.parametrize(
    "problem",
    [
        random_lifetimes(1_000, seed=7),
        training_graph(400, streams=1, chains=8, chain_length=8, seed=3),
        training_graph(400, streams=4, chains=8, chain_length=8, seed=3),
    ],
    ids=lambda problem: problem.name,
)
def test_windows_improve_a_bad_plan(problem: Problem) -> None:
    bound = max(bound.bytes for bound in bounds_of(problem))
    attempts = Incumbent(problem, Budget(node_limit=60_000).started(), bound)
    start = place(problem, "source")
    attempts.offer(start, "start")
    windows = LargeNeighbourhoodSearch(Shared(attempts, Portfolio(problem)))
    while not attempts.over:
        windows.run(1)
    assert attempts.best is not None
    check(problem, attempts.best)
    assert attempts.best.peak < start.peak
