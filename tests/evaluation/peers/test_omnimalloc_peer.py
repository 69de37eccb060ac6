"""The adapter to omnimalloc: what it says, what it refuses, and that its plans are valid."""

from __future__ import annotations

import sys
from random import Random

import pytest

from evaluation.peers.omnimalloc_peer import (
    SUPERMALLOC,
    Peer,
    Placed,
    require_expressible,
    to_allocations,
)
from evaluation.study.plugins import load_plugins
from evaluation.study.study_file import find_study
from instances.synthetic import random_lifetimes, tight_capacity, training_graph, training_trace
from planners import Budget, Problem, Result, Safety, Status, place, run
from planners.answers.planner_answer import take_in
from planners.errors import MissingDependencyError
from planners.referee.judge import judge
from planners.referee.naive import find_violation
from planners.registry import UnsupportedProblemError, choose_one
from planners.testing.random_problems import random_problem
from tests.planners.exact.brute_force import optimal_peak

needs_omnimalloc = pytest.mark.bench

#   offset
#     6 |  1 1       tensors 0 and 1 meet, 1 and 2 meet: 5 + 4 bytes at step 1
#       |  1 1 2
#     0 |0 0   2
#        0 1 2 3
SMALL = Problem([5, 4, 3], [0, 1, 2], [2, 3, 4], name="small")


def answer_of(problem: Problem, allocator: str, **limits: float) -> Result:
    """Return what an allocator answers, judged."""
    peer = Peer(allocator, Budget(**limits))
    placed = peer.run(peer.allocations_of(problem), problem.capacity)
    return judge(problem, take_in(problem, peer.result(problem, placed)))


def test_without_the_package_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "omnimalloc", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'gapless\[bench\]'"):
        to_allocations(SMALL)


@pytest.mark.parametrize(
    ("problem", "feature"),
    [
        (Problem([1, 2], [0, 0], [9, 9], gaps=[(0, 3, 5)]), "gaps"),
        (Problem([1, 2], [0, 0], [9, 9], alignment=[1, 8]), "alignment"),
        (Problem([1, 2], [0, 0], [9, 9], contiguous=[(0, 1)]), "chains"),
        (Problem([1, 2], unsafe_pairs=[(0, 1)]), "decides safety"),
        (training_graph(20, streams=3), "decides safety"),
    ],
)
def test_refuses_features_that_the_peer_cannot_express(problem: Problem, feature: str) -> None:
    with pytest.raises(UnsupportedProblemError, match=feature):
        require_expressible(problem)


def test_a_graph_of_one_stream_is_lifetimes() -> None:
    require_expressible(training_graph(20))


@pytest.mark.parametrize(
    ("placed", "status"),
    [
        (Placed(None, 9, exhausted=True), Status.INFEASIBLE),
        (Placed(None, 9), Status.NO_PLAN_FOUND),
    ],
)
def test_a_proof_and_a_time_out_are_two_answers(placed: Placed, status: Status) -> None:
    assert Peer(SUPERMALLOC).result(SMALL, placed).status is status


@needs_omnimalloc
def test_greedy_plans_are_valid() -> None:
    problems = [training_trace(300), random_lifetimes(300), training_graph(300)]
    asked = {name for grid in find_study("peers").grids for name in grid.named["offsets"]}
    theirs = {name.rpartition("=")[2] for name in asked if name.startswith("omnimalloc:")}
    for allocator in theirs - {SUPERMALLOC}:
        for problem in problems:
            result = answer_of(problem, allocator)
            assert result.status in (Status.FEASIBLE, Status.OPTIMAL), (allocator, result.reason)
            assert result.plan is not None
            assert find_violation(problem, result.plan) is None


@needs_omnimalloc
@pytest.mark.parametrize("seed", range(5))
def test_by_size_is_our_order_and_our_fit(seed: int) -> None:
    problem = random_lifetimes(500, seed=seed)
    theirs = answer_of(problem, "greedy_by_size").plan
    assert theirs is not None
    assert theirs.offsets.tolist() == place(problem, "size", "first").offsets.tolist()


@needs_omnimalloc
def test_tensors_without_bytes_and_time_below_zero() -> None:
    problem = Problem([4, 0, 3], [-7, -6, -5], [-4, -3, -2])
    result = answer_of(problem, "greedy_by_size")
    assert result.valid
    assert result.peak == 7


@needs_omnimalloc
def test_pins_are_kept_or_refused() -> None:
    problem = Problem([5, 4, 3], [0, 1, 2], [2, 3, 4], pinned={1: 16})
    result = answer_of(problem, "greedy_by_size")
    assert result.valid
    assert result.peak == 20
    with pytest.raises(UnsupportedProblemError, match="moves pinned tensors"):
        answer_of(problem, SUPERMALLOC)


@needs_omnimalloc
@pytest.mark.parametrize("seed", range(20))
def test_supermalloc_agrees_with_brute_force(seed: int) -> None:
    problem = random_problem(Random(seed), Safety.LIFETIMES, (1, 6), features=frozenset())
    optimum = optimal_peak(problem)
    assert optimum is not None
    result = answer_of(problem, SUPERMALLOC)
    assert (result.status, result.peak) == (Status.OPTIMAL, optimum)
    result = answer_of(problem.with_capacity(optimum), SUPERMALLOC, time_limit_seconds=60)
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert result.peak == optimum
    if optimum:
        result = answer_of(problem.with_capacity(optimum - 1), SUPERMALLOC)
        assert result.status is Status.INFEASIBLE


@needs_omnimalloc
def test_a_limit_that_has_passed_is_not_a_proof() -> None:
    # A plan at the bound exists, but the first packings miss it and no time is left to search.
    problem = random_lifetimes(300, seed=2)
    first = answer_of(problem, SUPERMALLOC, time_limit_seconds=1e-6)
    assert first.status is Status.FEASIBLE
    limited = problem.with_capacity(first.lower_bound)
    result = answer_of(limited, SUPERMALLOC, time_limit_seconds=1e-6)
    assert result.status is Status.NO_PLAN_FOUND
    assert result.reason == "the time limit passed"


@needs_omnimalloc
def test_the_allocation_that_ends_the_search_is_not_a_tensor() -> None:
    problem = random_lifetimes(12, seed=1)
    least = answer_of(problem, SUPERMALLOC).lower_bound
    plan = answer_of(problem.with_capacity(2 * least), SUPERMALLOC).plan
    assert plan is not None
    assert len(plan.offsets) == problem.tensor_count
    assert plan.peak <= 2 * least


@needs_omnimalloc
def test_no_tensors_fit_any_capacity() -> None:
    assert answer_of(Problem([], [], []).with_capacity(0), SUPERMALLOC).peak == 0


@pytest.mark.bench
def test_its_plan_is_judged_and_its_own_cost_is_told() -> None:
    load_plugins(find_study("peers").plugins)
    problem = random_lifetimes(50, seed=1)
    result = run(problem, choose_one("omnimalloc:allocator=greedy_by_size"))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    # The same order and the same fit.
    assert result.peak == place(problem, "size", "first").peak
    seconds = float(result.statistics["placing_seconds"])
    assert 0 <= seconds <= result.cpu_seconds
    assert float(result.statistics["placing_bytes"]) >= 0


@pytest.mark.bench
@pytest.mark.parametrize(("label", "threads"), [("omnimalloc:threads=3", 3), ("omnimalloc", 2)])
def test_threads_are_those_given_or_of_the_budget(
    label: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import omnimalloc

    load_plugins(find_study("exact").plugins)
    told: list[int] = []
    monkeypatch.setattr(omnimalloc, "set_max_threads", told.append)
    result = run(tight_capacity(20, utilisation=0.8), label, Budget(5, threads=2))
    assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert told == [threads]
