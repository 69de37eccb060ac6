"""auto with an exact search at hand; here CP-SAT, which shares no code with the rest."""

from __future__ import annotations

import random

import pytest

from planners import Budget, Plan, Problem, Result, Safety, Status, bounds_of, check, place
from planners.model.findings import Findings
from planners.referee.judge import judge
from planners.registry import get
from planners.search.auto import plan_any
from planners.search.large_neighbourhood import place_window
from planners.search.turns import ExactSearch
from planners.testing.random_problems import FEATURES, random_problem
from tests.planners.exact.brute_force import optimal_peak

RING = Problem([2] * 5, unsafe_pairs=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
"""Two at a time, and yet five cannot share two places: 6 is the optimum, and no bound says so."""


def cp_sat(problem: Problem, budget: Budget, _: Plan | None) -> Findings:
    found = get("cp-sat").info.build()(problem, budget)
    assert isinstance(found, Findings)
    return found


def auto(problem: Problem, exact: ExactSearch = cp_sat) -> Result:
    return judge(problem, plan_any(problem, Budget().started(), exact), bounds_of(problem))


@pytest.mark.parametrize("safety", Safety)
def test_equals_brute_force(safety: Safety) -> None:
    for seed in range(40):
        rng = random.Random(f"auto exact {safety} {seed}")
        features = FEATURES - {"capacity", "conflicts"}
        problem = random_problem(rng, safety, (0, 6), features=features)
        result = auto(problem)
        assert result.status is Status.OPTIMAL
        assert result.plan is not None
        check(problem, result.plan)
        assert result.peak == optimal_peak(problem)


@pytest.mark.parametrize("safety", Safety)
def test_a_capacity_is_met_or_refuted(safety: Safety) -> None:
    for seed in range(20):
        rng = random.Random(f"auto fits {safety} {seed}")
        features = FEATURES - {"capacity", "conflicts"}
        problem = random_problem(rng, safety, (1, 6), features=features)
        optimum = optimal_peak(problem)
        assert optimum is not None
        for capacity in {max(0, optimum - 1), optimum, optimum + 1}:
            result = auto(problem.with_capacity(capacity))
            fits = result.status in (Status.OPTIMAL, Status.FEASIBLE)
            assert fits == (capacity >= optimum)
            assert fits or result.status is Status.INFEASIBLE


def test_a_proof_of_the_search_is_named_after_the_planner() -> None:
    result = auto(RING)
    assert (result.status, result.peak, result.certificate) == (Status.OPTIMAL, 6, "auto")


def test_ctrl_c_in_the_exact_search_ends_everything() -> None:
    def interrupted(problem: Problem, budget: Budget, incumbent: Plan | None) -> Findings:
        answer = cp_sat(problem, budget, incumbent)
        return Findings(answer.plan, lower_bound=5, interrupted=True)

    result = auto(RING, interrupted)
    assert (result.status, result.peak, result.lower_bound) == (Status.FEASIBLE, 6, 5)
    assert result.interrupted
    assert result.reason == "interrupted"


def test_the_limit_of_the_exact_search_doubles() -> None:
    limits = []

    def fruitless(_: Problem, budget: Budget, incumbent: Plan | None) -> Findings:
        assert incumbent is not None
        limits.append(budget.node_limit)
        return Findings(reason="nothing")

    result = plan_any(RING, Budget(node_limit=3_000_000).started(), fruitless)
    assert (result.plan is not None, result.certificate) == (True, "clique")
    assert limits[:3] == [5_000, 10_000, 20_000]
    assert sum(limit for limit in limits if limit is not None) <= 3_000_000


def test_a_window_is_placed_exactly_where_local_search_fails() -> None:
    window = RING.with_capacity(6)
    # No order of a ring of five is better than another: greedy finds 6 at once.
    plan, _ = place_window(window, Budget(node_limit=10))
    assert plan is not None
    assert place_window(RING.with_capacity(5), Budget(node_limit=10), cp_sat)[0] is None
    assert place(RING).peak == 6
