"""The exact planners agree with brute force, and so with each other, on every kind of problem."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from planners import Budget, Problem, Result, Safety, Status, bounds_of, run
from planners.exact import plan_exactly
from planners.referee.naive import find_violation
from planners.registry import get
from planners.testing.random_problems import random_problem
from tests.planners.exact.brute_force import optimal_peak
from tests.planners.exact.weak_start import weak_start
from tests.slow import in_parts

PLANNERS = ("branch-and-bound", "cp-sat", "ilp-highs", "ilp-cbc")
START = {"greedy": plan_exactly.warm_incumbent, "weak": weak_start}

NORMAL_PROBLEMS = 250
LONG_PROBLEMS = 10_000


@pytest.fixture(params=START)
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start from greedy plans and bounds, or so badly that all is left to the search."""
    monkeypatch.setattr(plan_exactly, "warm_incumbent", START[request.param])
    return str(request.param)


@in_parts("indices", range(NORMAL_PROBLEMS), first=20)
def test_agrees_with_brute_force(start: str, indices: range) -> None:
    answers = compare_from(20_240_502, indices)
    if start == "weak":
        # A test of the search that never searches tests nothing.
        for planner in PLANNERS:
            assert answers[planner, Status.OPTIMAL] > len(indices) / 4
            assert answers[planner, Status.INFEASIBLE] > 0
            assert answers[planner, Status.FEASIBLE] > 0


@pytest.mark.long
@pytest.mark.usefixtures("start")
def test_agrees_with_brute_force_on_thousands(fresh_seed: int) -> None:
    print(compare_from(fresh_seed, range(LONG_PROBLEMS)))


def compare_from(seed: int, indices: range) -> Counter[tuple[str, Status]]:
    """Compare on many random problems; return how often each planner answered what."""
    answers: Counter[tuple[str, Status]] = Counter()
    for index in indices:
        rng = random.Random(f"{seed}:{index}")
        problem = random_problem(rng, rng.choice(list(Safety)), (0, 7))
        optimum = optimal_peak(problem)
        for planner in PLANNERS:
            result = run(problem, get(planner), Budget(seed=index))
            wrong = find_mistake(problem, result, optimum)
            assert wrong is None, f"seed {seed}, problem {index}, {planner}: {wrong}, {result}"
            answers[planner, result.status] += 1
    return answers


def find_mistake(problem: Problem, result: Result, optimum: int | None) -> str | None:
    """Return what is wrong with the complete answer of an exact planner."""
    if result.plan is not None and (violation := find_violation(problem, result.plan)):
        return violation
    if optimum is None:
        return None if result.status is Status.INFEASIBLE else "no plan is valid"
    if any(bound.bytes > optimum for bound in bounds_of(problem)):
        return f"a bound is above the optimum {optimum}"
    if result.lower_bound > optimum:
        return f"its bound is above the optimum {optimum}"
    capacity = problem.capacity
    if capacity is None:
        found = result.status is Status.OPTIMAL and result.peak == optimum
        return None if found else f"the optimum is {optimum}"
    if optimum > capacity:
        proved = result.status is Status.INFEASIBLE and result.lower_bound > capacity
        return None if proved else f"nothing fits {capacity}"
    fits = result.peak is not None and result.peak <= capacity
    answered = result.status in (Status.FEASIBLE, Status.OPTIMAL) and fits
    return None if answered else f"a plan of {optimum} fits {capacity}"
