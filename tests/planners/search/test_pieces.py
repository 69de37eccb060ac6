"""Nests and parts: pieces of a problem, and plans and proofs made of theirs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from instances.synthetic import multi_stream_packing, neighbour_ring, scaling_family
from instances.synthetic.variations import vary
from planners import Budget, Problem, Safety, Status, run
from planners.exact.branch_and_bound.branch_and_bound import search as branch_and_bound
from planners.greedy.portfolio import Portfolio
from planners.model.findings import Findings
from planners.model.incumbent import Incumbent
from planners.referee.naive import find_violation
from planners.search.nests import Nest, Nests
from planners.search.parts import Parts, find_parts
from planners.search.turns import PieceSearch, Shared
from planners.testing.random_problems import SOLVABLE, random_problem
from tests.planners.exact.brute_force import optimal_peak

STEPS = 12
FOUND_BY = "pieces of a nest"


def minimise(problem: Problem, budget: Budget) -> Findings:
    return branch_and_bound(problem.with_capacity(None), budget)


def nest_of(rng: Random) -> Problem:
    """Return two groups side by side, below or between tensors that live as long as one or both."""
    rows = [(rng.randint(1, 6), 0, 2 * STEPS)]
    for begin in (0, STEPS):
        rows.append((rng.randint(1, 6), begin, begin + STEPS))
        for _ in range(3):
            first, last = sorted(rng.sample(range(STEPS + 1), 2))
            rows.append((rng.randint(1, 6), begin + first, begin + last))
    rng.shuffle(rows)
    size, start, end = zip(*rows, strict=True)
    return Problem(size, start, end)


def planned_in_pieces(problem: Problem, plan_piece: PieceSearch = minimise) -> Incumbent:
    incumbent = Incumbent(problem, Budget().started())
    shared = Shared(incumbent, Portfolio(problem), plan_piece=plan_piece, certificate="nests")
    Nests(shared).run(1)
    return incumbent


def test_minima_of_pieces_make_the_minimum_of_the_whole() -> None:
    for seed in range(30):
        problem = nest_of(Random(f"nests {seed}"))
        incumbent = planned_in_pieces(problem)
        assert incumbent.found_by == FOUND_BY
        assert incumbent.over
        assert incumbent.best is not None
        assert find_violation(problem, incumbent.best) is None
        assert incumbent.best.peak == optimal_peak(problem)


def test_plans_are_valid_and_proofs_right_whatever_a_problem_has() -> None:
    planned = 0
    for seed in range(300):
        rng = Random(f"nests of anything {seed}")
        problem = random_problem(rng, Safety.LIFETIMES, (2, 7), features=SOLVABLE)
        if Nests.reason_against(problem):
            continue
        incumbent = planned_in_pieces(problem)
        if incumbent.best is None:
            continue  # one piece
        assert find_violation(problem, incumbent.best) is None
        optimum = optimal_peak(problem)
        assert optimum is not None
        assert incumbent.findings().lower_bound <= optimum
        planned += 1
    assert planned > 50


def test_a_proof_of_a_piece_holds_for_the_whole() -> None:
    # Every step needs 4 units of the ring at most, and it takes 5; 3 bytes lie below it.
    ring = neighbour_ring(2)
    end = int(ring.end.max())
    problem = Problem(
        [*ring.size, 3, *ring.size[::-1]],
        [*ring.start, 0, *(ring.start[::-1] + end)],
        [*ring.end, 2 * end, *(ring.end[::-1] + end)],
    )
    incumbent = planned_in_pieces(problem)
    assert incumbent.over
    assert incumbent.findings().lower_bound == 5 * ring.size.min() + 3
    assert incumbent.findings().certificate == "nests"


def test_a_piece_that_does_not_fit_below_the_goal_is_planned_all_the_same() -> None:
    # Rounded up, the floor of the chain is 8, from where it needs more than the 9 bytes of a bound.
    problem = Problem(
        [1, 3, 1, 2], [0, 0, 0, 2], [4, 2, 2, 4], alignment=[1, 1, 8, 1], contiguous=[(1, 2)]
    )
    assert planned_in_pieces(problem, branch_and_bound).found_by == FOUND_BY


@pytest.mark.parametrize(("goal", "stretched"), [(12, False), (13, True)])
def test_nothing_is_stretched_above_the_goal(goal: int, stretched: bool) -> None:
    """Stretch the longest, of 3, over the last section, which needs 10 without it.

    1 1 1 1 1 1 1 1 8 8
                  2 2
    3 3 3 3 3 3 3 3
    """
    problem = Problem([1] * 8 + [2, 3, 8], [*range(8), 7, 0, 8], [*range(1, 9), 9, 8, 10])
    heads = problem.blocks.residue.copy()
    pieces = Nest(problem, lambda: None).take_apart(goal, 0.5, heads)
    assert (not pieces) == stretched


@pytest.mark.parametrize("variation", ["mirrored", "smaller", "shorter"])
def test_training_falls_into_pieces_that_meet_its_bound(variation: str) -> None:
    problem = vary(scaling_family(1_000, seed=1), variation, 1)
    result = run(problem, "auto", Budget(node_limit=5_000))
    assert result.status is Status.OPTIMAL


def test_parts_of_shorter_lifetimes_are_stretched_each_by_itself() -> None:
    problem = vary(vary(scaling_family(500), "shorter", 1), "twice", 1)
    result = run(problem, "auto", Budget(node_limit=5_000))
    assert result.status is Status.OPTIMAL


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
        Parts(Shared(incumbent, Portfolio(problem))).run(1)
        assert incumbent.best is not None
        assert find_violation(problem, incumbent.best) is None
        planned += 1
    assert planned > 20


@pytest.mark.parametrize("tensors", [100, 300])
def test_regions_of_streams_are_found(tensors: int) -> None:
    problem = multi_stream_packing(tensors, seed=0)
    result = run(problem, "auto", Budget(node_limit=300_000))
    assert result.status is Status.OPTIMAL
