"""The plan file: round trip, and every way in which one can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planners import get, read_problem, run, write_problem
from planners.errors import GaplessError, InstanceError, InvalidPlanError
from planners.files.plan_file import read_plan, write_plan
from planners.files.problem_file import problem_digest
from planners.model.bounds import bounds_of
from planners.model.plan import Result, Status, feasible, no_plan_found
from planners.model.problem import Problem


def problem_of(size: list[int] = [4, 2], **more: Any) -> Problem:  # noqa: B006
    return Problem(size=size, start=[0, 0], end=[2, 2], **more)


def result_of(problem: Problem) -> Result:
    return run(problem, get("greedy-size-first"), bounds=bounds_of(problem))


def test_a_written_plan_is_read_back(tmp_path: Path) -> None:
    problem = problem_of()
    result = result_of(problem)
    write_plan(problem, result, tmp_path / "plan.json")
    read = read_plan(problem, tmp_path / "plan.json")
    assert read.plan is not None
    assert read.plan.offsets.tolist() == [0, 4]
    for name in ("status", "peak", "lower_bound", "certificate", "planner", "parameters", "seed"):
        assert getattr(read, name) == getattr(result, name), name


def test_a_plan_fits_whatever_the_problem_is_called(tmp_path: Path) -> None:
    write_plan(problem_of(), result_of(problem_of()), tmp_path / "plan.json")
    renamed = problem_of(name="other", tensor_name=["a", "b"], capacity=100, origin={"x": 1})
    assert read_plan(renamed, tmp_path / "plan.json").peak == 6


def test_a_plan_read_as_an_instance_says_that_it_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan(problem_of(name="toy"), result_of(problem_of()), path)
    with pytest.raises(
        InstanceError, match=r"plan\.json: this file is a plan for the instance 'toy'.*--plan"
    ):
        read_problem(path)


def test_an_instance_read_as_a_plan_says_so(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    write_problem(problem_of(), path)
    with pytest.raises(
        InstanceError, match="field format: 'gapless-plan' is needed, found 'gapless-problem'"
    ):
        read_plan(problem_of(), path)


def test_the_digest_tells_problems_apart() -> None:
    digests = {
        problem_digest(problem)
        for problem in (
            problem_of(), problem_of(size=[4, 3]), problem_of(alignment=[2, 1]),
            problem_of(pinned={0: 0}), problem_of(contiguous=[(0, 1)]),
            Problem(size=[4, 2], unsafe_pairs=[(0, 1)]),
        )
    }  # fmt: skip
    assert len(digests) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "field format: 'gapless-plan' is needed"),
        ({"version": 2}, "field version: 1 is needed, found 2"),
        ({"version": True}, "field version: 1 is needed"),
        ({"peak": "6"}, "field peak: a whole number"),
        ({"peak": 6.0}, "field peak: a whole number"),
        ({"seed": -1}, "field seed: a whole number"),
        ({"lower_bound": 2**64}, "field lower_bound: a whole number"),
        ({"offsets": "04"}, "field offsets: a list"),
        ({"offsets": [0, 4.5]}, "field offsets"),
        ({"planner": 3}, "field planner: a string"),
        ({"parameters": []}, "field parameters: an object"),
        ({"parameters": {"a": [1]}}, "field parameters, key 'a'"),
        ({"status": "invalid"}, "field status: 'optimal' or 'feasible' is needed"),
        ({"lower_bound": 5}, "field lower_bound: at most the peak"),
        ({"lower_bound": 7, "status": "feasible"}, "field lower_bound: at most the peak"),
        ({"digest": "sha256:0"}, "field digest: the plan is for another problem, 'problem'"),
        ({"colour": 1}, "field colour: unknown"),
        ({"seed": ...}, "field seed: missing"),
    ],
)
def test_a_file_that_breaks_a_rule(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "plan.json"
    write_plan(problem_of(), result_of(problem_of()), path)
    fields = json.loads(path.read_text()) | change
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))
    with pytest.raises(InstanceError, match=message) as caught:
        read_plan(problem_of(), path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": [0, 0], "peak": 4, "lower_bound": 4}, "unsafe tensors share bytes"),
        ({"offsets": [0]}, "one offset a tensor is needed"),
        ({"peak": 8, "status": "feasible"}, "the peak is the largest offset"),
        ({"offsets": [0, -4]}, "offsets are at least 0"),
    ],
)
def test_a_plan_that_is_wrong(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "plan.json"
    write_plan(problem_of(), result_of(problem_of()), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InvalidPlanError, match=message):
        read_plan(problem_of(), path)


def test_only_a_plan_that_answers_is_written(tmp_path: Path) -> None:
    plan = result_of(problem_of()).plan
    for result in (no_plan_found("none"), Result(Status.INVALID, plan)):
        with pytest.raises(GaplessError, match="a plan is needed, found"):
            write_plan(problem_of(), result, tmp_path / "plan.json")
    assert plan is not None
    with pytest.raises(GaplessError, match="it cannot be written: No such file"):
        write_plan(problem_of(), feasible(plan), tmp_path / "none" / "plan.json")
