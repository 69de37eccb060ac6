"""Every planner keeps the contract, whoever wrote it."""

from __future__ import annotations

import random

import pytest

from planners import registry
from planners.model.plan import Status
from planners.model.problem import Safety
from planners.testing.contract import FIXED, WITH_A_PLAN, answer, require_contract
from planners.testing.random_problems import (
    random_problem,
    with_classes,
    with_memories,
    with_prices,
)

PROBLEMS_OF_A_KIND = 25
# Of problems with a choice of memories, which have no pins.
PLACED = frozenset({"alignment", "chains", "gaps", "zero"})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--planner", None)
    metafunc.parametrize("name", chosen or [info.name for info in registry.planners()])


@pytest.mark.parametrize("case", FIXED)
def test_small_cases(name: str, case: str) -> None:
    problem = FIXED[case]()
    require_contract(problem, answer(name, problem))


@pytest.mark.parametrize("safety", Safety)
def test_random_problems(name: str, safety: Safety) -> None:
    for seed in range(PROBLEMS_OF_A_KIND):
        rng = random.Random(f"{safety} {seed}")
        problem = random_problem(rng, safety, (0, 7))
        require_contract(problem, answer(name, problem))


@pytest.mark.parametrize("safety", Safety)
def test_prices_classes_and_memories(name: str, safety: Safety) -> None:
    for seed in range(PROBLEMS_OF_A_KIND):
        rng = random.Random(f"conditions {safety} {seed}")
        problem = with_prices(rng, random_problem(rng, safety, (1, 6), features=PLACED))
        problem = with_classes(rng, problem)
        if seed % 2:
            problem = with_memories(rng, problem, choice=seed % 4 == 1)
        require_contract(problem, answer(name, problem))


@pytest.mark.parametrize("safety", Safety)
def test_the_same_seed_gives_the_same_plan(name: str, safety: Safety) -> None:
    problem = random_problem(random.Random(f"again {safety}"), safety, 7)
    for seed in (0, 7):
        first, second = (answer(name, problem, seed=seed) for _ in range(2))
        assert first.status is second.status
        assert first.lower_bound == second.lower_bound
        if first.plan is None:
            assert second.plan is None
        else:
            assert second.plan is not None
            assert first.plan.offsets.tolist() == second.plan.offsets.tolist()


@pytest.mark.parametrize("safety", Safety)
def test_no_time_gets_a_clear_answer(name: str, safety: Safety) -> None:
    problem = random_problem(random.Random(f"quick {safety}"), safety, 40)
    for seconds in (0.0, 1e-3):
        require_contract(problem, answer(name, problem, seconds))


def test_who_fits_is_no_matter_of_opinion(name: str) -> None:
    for seed in range(PROBLEMS_OF_A_KIND):
        rng = random.Random(f"fits {seed}")
        problem = random_problem(rng, Safety.LIFETIMES, 6)
        statuses = {answer(other, problem).status for other in ("greedy-size-first", name)}
        assert not (Status.INFEASIBLE in statuses and statuses & set(WITH_A_PLAN))
