"""The reusable space in the plan file: round trip, and claims that the plan refutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from planners.dynamic.reusable_space import reusable_space
from planners.dynamic.static_part import static_part
from planners.errors import InstanceError
from planners.files.plan_file import read_plan, read_saved_plan, write_plan
from planners.greedy.place import place
from planners.model.plan import Plan, feasible
from planners.model.problem import Problem
from tests.planners.dynamic.dynamic_problems import dynamic_problems


def moe() -> Problem:
    """Two static tensors one after the other, two dynamic ones beside them.

    step     0 1 2 3 4 5 6
    wide     [-------)            bytes 0 to 8
    narrow           [---)        bytes 0 to 3
    first    [---)                between the same static steps as no other
    second           [-)
    """
    return Problem([8, 3, 2, 2], [0, 4, 1, 4], [4, 6, 2, 5], dynamic=[False, False, True, True])


def saved(path: Path, **change: object) -> Path:
    problem = moe()
    plan = place(static_part(problem).problem)
    write_plan(static_part(problem).problem, feasible(plan), path, reusable_space(problem, plan))
    fields = json.loads(path.read_text())
    part = fields["reusable_space"]
    part.update(change)
    fields["reusable_space"] = {key: value for key, value in part.items() if value is not ...}
    path.write_text(json.dumps(fields))
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dynamic_problems())
def test_what_is_written_is_read(tmp_path: Path, problem: Problem) -> None:
    part = static_part(problem)
    plan = place(part.problem)
    space = reusable_space(problem, plan)
    path = tmp_path / "plan.json"
    write_plan(part.problem, feasible(plan), path, space)
    read = read_saved_plan(part.problem, path)
    assert read.reusable_space is not None
    assert read.reusable_space.same_as(space)
    assert read.result.plan is not None
    assert read.result.plan.offsets.tolist() == plan.offsets.tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dynamic_problems())
def test_a_plan_of_all_tensors_carries_the_space_of_its_static_ones(
    tmp_path: Path, problem: Problem
) -> None:
    plan = place(problem)
    space = reusable_space(problem, static_part(problem).plan_within(plan))
    write_plan(problem, feasible(plan), tmp_path / "plan.json", space)
    read = read_saved_plan(problem, tmp_path / "plan.json")
    assert read.reusable_space is not None
    assert read.reusable_space.same_as(space)


def test_a_file_without_it_stays_of_version_1(tmp_path: Path) -> None:
    problem = Problem([4], [0], [1])
    path = tmp_path / "plan.json"
    write_plan(problem, feasible(Plan([0], 4)), path)
    assert json.loads(path.read_text())["version"] == 1
    assert read_saved_plan(problem, path).reusable_space is None
    assert json.loads(saved(path).read_text())["version"] == 2
    assert read_plan(static_part(moe()).problem, path).peak == 8


def test_the_part_says_what_is_idle(tmp_path: Path) -> None:
    part = json.loads(saved(tmp_path / "plan.json").read_text())["reusable_space"]
    assert part == {
        "pool": 8,
        "visits": [[-1, 1, -1, 1], [-1, 2, -1, 2]],
        "times": [[0, 4], [4, 6]],
        "space": [0, 1],
        "offsets": [0, 0, 1],
        "intervals": [[3, 8]],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": 9}, "field reusable_space.pool: the peak of the static tensors, 8, is needed"),
        ({"pool": "8"}, "field reusable_space.pool: a whole number"),
        ({"pool": ...}, "field reusable_space.pool: missing"),
        ({"colour": 1}, "field reusable_space.colour: unknown"),
        ({"space": 3}, "field reusable_space.space: a list"),
        ({"space": [0, 7]}, "field reusable_space, field space, row 1: a list below 2"),
        (
            {"intervals": [[2, 8]]},
            r"group 1: what the plan leaves idle, \[\[3, 8\]\], is needed, found \[\[2, 8\]\]",
        ),
        ({"intervals": [[4, 8]]}, "group 1: what the plan leaves idle"),
        ({"times": [[0, 4], [3, 6]]}, r"group 1: what the plan leaves idle, \[\], is needed"),
        ({"space": [1, 1]}, r"group 0: what the plan leaves idle, \[\], is needed"),
        (
            {"offsets": [0, 1, 1], "space": [1, 0]},
            "field reusable_space.space: lists in the order",
        ),
    ],
)
def test_a_claim_that_the_plan_refutes(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = saved(tmp_path / "plan.json", **change)
    with pytest.raises(InstanceError, match=message) as caught:
        read_plan(static_part(moe()).problem, path)
    assert str(caught.value).startswith(f"{path}: ")
