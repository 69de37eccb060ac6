"""Memories and classes: planners answer a problem's plain form, as well as brute force."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from planners import (
    Budget,
    Memory,
    Problem,
    Safety,
    Status,
    get,
    read_plan,
    run,
    write_plan,
)
from planners.model.plain_form import plain_form
from planners.referee.fast import find_violation_fast
from planners.referee.naive import find_violation
from planners.testing.contract import WITH_A_PLAN
from planners.testing.random_problems import (
    random_problem,
    with_classes,
    with_memories,
    with_prices,
)
from tests.planners.exhaustive import least_cost

pytestmark = pytest.mark.core

FEATURES = frozenset({"alignment", "chains", "gaps", "zero"})
# Limits the bytes of a problem for brute force, which tries all offsets.
MOST_BYTES = 12


def small(seed: str, safety: Safety) -> Problem | None:
    """Return a random problem of few bytes with prices, classes and memories, or None."""
    rng = Random(seed)
    drawn = random_problem(rng, safety, (2, 4), features=FEATURES)
    if drawn.naive_bytes > MOST_BYTES or (drawn.alignment > 2).any():
        return None
    problem = with_prices(rng, drawn) if rng.random() < 0.6 else drawn
    if rng.random() < 0.7:
        problem = with_classes(rng, problem)
    if rng.random() < 0.7 or problem.capacity is None:
        problem = with_memories(rng, problem, choice=False)
    return problem


@pytest.mark.parametrize("safety", Safety)
def test_the_least_cost_is_that_of_brute_force(safety: Safety) -> None:
    fit = refused = 0
    for seed in range(200):
        problem = small(f"{safety} {seed}", safety)
        if problem is None:
            continue
        least = least_cost(problem)
        result = run(problem, get("auto"), Budget(node_limit=2000))
        if result.status is Status.UNSUPPORTED:
            assert "group of several sizes" in result.reason
            refused += 1
            continue
        if problem.cost_decides:
            assert (result.cost if result.status in WITH_A_PLAN else None) == least
        assert (result.status in WITH_A_PLAN) == (least is not None)
        fit += least is not None
        if result.plan is not None:
            assert find_violation(problem, result.plan) is None
            assert find_violation_fast(problem, result.plan) is None
    assert fit >= 5
    assert refused <= fit


TWO = (Memory("fast", 0, 8), Memory("slow", 64, 100))


def test_each_memory_is_a_problem_of_its_own() -> None:
    problem = Problem(
        [4, 4, 9], [0, 0, 0], [2, 2, 2], memories=TWO, places=[(0, 0, 0), (1, 0, 0), (2, 1, 7)]
    )
    result = run(problem, "greedy-size-first")
    assert (result.status, result.cost) == (Status.OPTIMAL, 7)
    assert result.plan is not None
    assert sorted(result.plan.offsets.tolist()) == [0, 4, 64]


def test_a_saved_plan_pays_for_its_places(tmp_path: Path) -> None:
    problem = Problem([4], [0], [2], memories=TWO, places=[(0, 1, 7)])
    write_plan(problem, run(problem, "auto"), tmp_path / "plan.json")
    read = read_plan(problem, tmp_path / "plan.json")
    assert (read.status, read.cost, read.cost_bound) == (Status.OPTIMAL, 7, 7)


def test_a_tensor_too_many_for_its_memory() -> None:
    problem = Problem(
        [4, 4, 1], [0] * 3, [2] * 3, memories=TWO, places=[(t, 0, 0) for t in (0, 1, 2)]
    )
    result = run(problem, "auto")
    assert result.status is Status.INFEASIBLE
    assert result.reason == "memory fast: at least 9 bytes are needed, it has 8"


def test_a_choice_of_memories_is_refused_by_others() -> None:
    result = run(Problem([4], [0], [2], memories=TWO), "greedy-size-first")
    assert result.status is Status.UNSUPPORTED
    assert result.reason == "a tensor may lie in several memories: auto and cp-sat choose one"


def test_a_tensor_without_a_memory() -> None:
    problem = Problem([4, 4], [0, 0], [2, 2], together=[(0, 1)], memories=TWO,
                      places=[(0, 0, 0), (1, 1, 0)])  # fmt: skip
    result = run(problem, "auto")
    assert result.status is Status.INFEASIBLE
    assert "tensor 0 and its group may lie in no memory together" in result.reason


def test_slices_let_others_share_the_rest_of_a_larger_member() -> None:
    # Tensor 2 is unsafe with the small member only, and lies above it in the bytes of the large.
    problem = Problem([2, 10, 8], unsafe_pairs=[(0, 2)], together=[(0, 1)], capacity=10)
    result = run(problem, "auto")
    assert (result.status, result.peak) == (Status.OPTIMAL, 10)
    assert plain_form(problem).parts[0].problem.size.tolist() == [8, 2, 8]


def test_exclusive_pairs_share_bytes_and_pairs_apart_do_not() -> None:
    both = Problem([4, 4], [0, 0], [2, 2], exclusive=[(0, 1)])
    assert run(both, "auto").peak == 4
    after = Problem([4, 4], [0, 2], [2, 4], apart=[(0, 1)])
    assert run(after, "auto").peak == 8
