"""Running a planner: what is measured of it."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from planners import (
    Budget,
    Plan,
    Problem,
    Result,
    Status,
    bounds_of,
    get,
    register,
    run,
    solve,
)  # fmt: skip
from planners.answers.isolated_planner import Isolation
from planners.compare.comparison import compare_planners
from planners.errors import InstanceError, UnknownPlannerError
from planners.greedy.place import place
from planners.model.plan import no_plan_found
from planners.registry import ChosenPlanner, PlannerInfo

BUSY = "sum(range(3_000_000))"


def test_processor_time_of_child_processes_counts() -> None:
    spent = []

    def plan(problem: Problem, _budget: Budget) -> Plan:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, "-c", BUSY], check=True)
        spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        return place(problem)

    info = PlannerInfo("outside", "", "", {}, lambda: plan)
    problem = Problem([1], [0], [1])
    own = run(problem, ChosenPlanner(info, {})).cpu_seconds
    assert 0 < spent[0] <= own


def test_a_plan_above_the_capacity_says_what_ended_the_planner() -> None:
    def plan(problem: Problem, _budget: Budget) -> Result:
        return replace(no_plan_found("time limit"), plan=Plan.of(problem, [0, 4]))

    problem = Problem([3, 3], [0, 0], [1, 1], capacity=6)
    answer = run(problem, ChosenPlanner(PlannerInfo("late", "", "", {}, lambda: plan), {}))
    assert answer.status is Status.NO_PLAN_FOUND
    said = "the best plan needs 1 bytes more than the capacity of 6; time limit"
    assert (answer.reason, answer.said) == (said, "time limit")


SMALL = Problem([3, 2, 2], [0, 0, 2], [2, 4, 4], name="small")


def test_a_planner_is_named_as_on_the_command_line() -> None:
    named = run(SMALL, "greedy-size-first:chain_rule=paper", Budget(seed=3))
    assert (named.planner, named.parameters) == ("greedy-size-first", {"chain_rule": "paper"})
    assert (named.peak, named.seed) == (5, 3)
    assert solve(SMALL, "auto").peak == solve(SMALL, get("auto")).peak == 5


@pytest.mark.parametrize(
    ("problem", "planner", "error", "message"),
    [
        (SMALL, "nave", UnknownPlannerError, "no planner matches 'nave'; did you mean 'naive'"),
        (SMALL, "greedy-*", UnknownPlannerError, "one planner is needed, found 8"),
        (SMALL, None, UnknownPlannerError, "a name such as 'auto', or planners.get.*found None"),
        (SMALL, SMALL, UnknownPlannerError, "found <Problem 'small'"),
        ("a.csv", "naive", InstanceError, "a planners.Problem is needed, .*found 'a.csv'"),
    ],
)
def test_another_value_than_a_problem_or_a_planner_is_refused(
    problem: Problem, planner: str, error: type[Exception], message: str
) -> None:
    for door in (run, solve):
        with pytest.raises(error, match=message):
            door(problem, planner)


def test_a_value_is_one_line_in_a_session() -> None:
    many = Problem([1 << 30] * 5000, [0] * 5000, [1] * 5000, name="x" * 500, capacity=9)
    result = replace(run(many, "naive"), reason="one\ntwo")
    shown = [repr(it) for it in (many, result, result.plan, bounds_of(many)[0])]
    assert [line for line in shown if "\n" in line or len(line) > 250] == []
    assert repr(SMALL) == ("<Problem 'small': 3 tensors, 1 stream, 0 chains, naive sum 7 B (7)>")
    assert repr(solve(SMALL, "auto")) == "<Plan: 3 offsets, peak 5 B (5)>"
    assert repr(bounds_of(SMALL)[0]) == "<Bound lifetime: 5 B (5), by 2 tensors>"
    assert repr(run(SMALL, "auto")) == (
        "<Result of 'auto': optimal, <Plan: 3 offsets, peak 5 B (5)>, lower bound 5 by 'lifetime'>"
    )


def test_a_result_with_odd_values_can_be_shown() -> None:
    odd = Result("good", plan=[1], lower_bound=None, certificate=b"x")  # type: ignore[arg-type]
    assert repr(odd) == "<Result of '': 'good', [1], lower bound None by b'x'>"


def test_a_proof_of_infeasibility_keeps_its_certificate() -> None:
    problem = Problem([3, 3], [0, 0], [1, 1], pinned={0: 0, 1: 2})
    for pins in (problem, problem.with_capacity(100), problem.with_capacity(2)):
        answers = [run(pins, get("auto"), bounds=bounds_of(pins))]
        chosen = [get("auto"), get("naive"), get("cp-sat")]
        answers += [row.result for row in compare_planners(pins, chosen, Budget()).rows]
        for answer in answers:
            assert (answer.status, answer.certificate) == (Status.INFEASIBLE, "pinned")
            assert "unsafe and pinned to the same bytes" in answer.reason
        other = ChosenPlanner(PlannerInfo("other", "", "", {}, lambda: lambda *_: None), {})
        assert run(pins, other).certificate == "pinned"


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("isolation", [None, Isolation()])
def test_the_preparation_of_a_planner_does_not_count_as_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: Isolation | None
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept))
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(1)", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow_to_import", raising=False)

    def late(problem: Problem, _budget: Budget) -> Plan:
        import_module("slow_to_import")
        return Plan([0] * problem.tensor_count, 1)

    register("late", prepare=lambda: import_module("slow_to_import"))(late)
    result = run(Problem([1], [0], [1]), "late", isolation=isolation)
    assert result.valid, result.reason
    assert (slept, result.seconds) == ([1], 0)


@pytest.mark.parametrize("error", [ImportError("none"), SystemExit(3), RuntimeError("broken")])
def test_a_planner_runs_although_its_preparation_fails(error: BaseException) -> None:
    def fail() -> None:
        raise error

    info = replace(get("naive").info, prepare=fail)
    assert run(Problem([1], [0], [1]), ChosenPlanner(info, {})).valid


def test_planners_that_come_along_import_their_solvers_before_their_time() -> None:
    code = (
        "import sys; from planners import Problem, run\n"
        "for name in ('cp-sat', 'ilp-highs', 'ilp-cbc'): run(Problem([1], [0], [1]), name)\n"
        "print({'ortools.sat.python.cp_model', 'scipy.optimize', 'pulp'} <= sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
