"""The contestants of a comparison: their plans are judged before anything shows their peak."""

from __future__ import annotations

from functools import partial

import pytest

from evaluation.benchmarks.contestants import contestant_runs
from evaluation.benchmarks.contestants.contestant_runs import run_contestant
from evaluation.benchmarks.contestants.planning_calls import peer_call, planner_call
from evaluation.benchmarks.measuring.isolated_measurement import IsolatedRun, MeasuredCall
from instances.synthetic import training_trace
from planners import Plan, Problem, Result, Status, place
from planners.model.plan import feasible, no_plan_found

SOURCE = partial(training_trace, 60, seed=3)


def all_at_zero(problem: Problem) -> Plan:
    return Plan.of(problem, [0] * problem.tensor_count)


def give_up(_problem: Problem) -> None:
    return None


def as_feasible(_problem: Problem, plan: Plan) -> Result:
    return feasible(plan)


def as_no_plan(_problem: Problem, _nothing: None) -> Result:
    return no_plan_found("the time limit passed")


def test_a_planner_of_ours_answers_in_processes_of_their_own() -> None:
    runs = run_contestant(SOURCE(), planner_call(SOURCE, "greedy-size-first"), 2)
    assert runs.peak == place(SOURCE(), "size", "first").peak
    assert len(runs.cpu_seconds) == len(runs.added_bytes) == 2


def test_a_planner_that_returns_a_result_keeps_it() -> None:
    runs = run_contestant(SOURCE(), planner_call(SOURCE, "pressure"), 1)
    assert runs.result.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert runs.result.certificate


def test_a_wrong_plan_has_no_peak() -> None:
    runs = run_contestant(SOURCE(), MeasuredCall(SOURCE, all_at_zero, as_feasible), 1)
    assert runs.peak is None
    assert runs.result.status is Status.INVALID
    assert "share bytes" in runs.result.reason


def test_one_wrong_plan_of_several_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = iter([all_at_zero(SOURCE()), place(SOURCE(), "size", "first")])
    monkeypatch.setattr(
        contestant_runs, "run_isolated", lambda _: IsolatedRun(feasible(next(plans)), 1.0, 0)
    )
    call = planner_call(SOURCE, "greedy-size-first")
    assert run_contestant(SOURCE(), call, 2).result.status is Status.INVALID


def test_no_plan_has_no_peak() -> None:
    runs = run_contestant(SOURCE(), MeasuredCall(SOURCE, give_up, as_no_plan), 1)
    assert runs.peak is None
    assert runs.result.status is Status.NO_PLAN_FOUND


@pytest.mark.bench
def test_an_allocator_of_the_peer_answers_in_processes_of_their_own() -> None:
    ours = run_contestant(SOURCE(), planner_call(SOURCE, "greedy-size-first"), 1)
    theirs = run_contestant(SOURCE(), peer_call(SOURCE, "greedy_by_size"), 1)
    # The same order and the same fit.
    assert theirs.peak == ours.peak
