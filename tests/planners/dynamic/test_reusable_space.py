"""The Dynamic Reusable Space: every byte in every step, what an allocator gets, and its file."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planners.dynamic.idle_space import idle_space
from planners.dynamic.layer_groups import layer_groups
from planners.dynamic.reusable_space import ReusableSpace, intersection, reusable_space
from planners.dynamic.static_part import static_part
from planners.errors import InstanceError
from planners.files.plan_file import read_plan, read_saved_plan, write_plan
from planners.greedy.place import place
from planners.model.columns import IntColumn
from planners.model.plan import Plan, feasible
from planners.model.problem import Problem
from planners.referee.naive import check
from tests.definitions import steps_needed
from tests.planners.dynamic.dynamic_problems import MAX_STEP, dynamic_problems

INTERVALS = st.lists(st.integers(0, 30), unique=True, max_size=12).map(
    lambda edges: np.array(sorted(edges[: len(edges) // 2 * 2]), dtype=np.int64).reshape(-1, 2)
)


def occupied_bytes(static: Problem, plan: Plan, begin: int, end: int) -> set[int]:
    """Return the bytes of the pool that some static tensor needs in some step of a span."""
    return {
        byte
        for tensor in range(static.tensor_count)
        if any(begin <= step < end for step in steps_needed(static, tensor))
        for byte in range(plan.offsets[tensor], plan.offsets[tensor] + static.size[tensor])
    }


def bytes_of(intervals: IntColumn) -> list[int]:
    return [byte for start, end in intervals.tolist() for byte in range(start, end)]


def in_one_list(intervals: IntColumn) -> bool:
    """Tell whether intervals ascend, none is empty, and none touches the next."""
    edges = intervals.reshape(-1).tolist()
    return all(a < b for a, b in pairwise(edges))


@given(dynamic_problems(), st.integers(1, 3))
def test_idle_is_what_no_static_tensor_needs(problem: Problem, stretch: int) -> None:
    static = static_part(problem).problem
    # A plan need not be tight: what lies between tensors is idle, too.
    tight = place(static)
    plan = Plan.of(static, [4 * stretch + 2 * stretch * x for x in tight.offsets.tolist()])
    space = reusable_space(problem, plan)
    assert space.pool == plan.peak
    for group in range(space.group_count):
        begin, end = space.times[group].tolist()
        found = space.idle_intervals(group)
        assert in_one_list(found)
        idle = set(range(plan.peak)) - occupied_bytes(static, plan, begin, end)
        assert bytes_of(found) == sorted(idle)


@given(dynamic_problems(), st.data())
def test_spans_of_any_kind_share_their_lists(problem: Problem, data: st.DataObject) -> None:
    static = static_part(problem).problem
    plan = place(static)
    step = st.integers(-2, MAX_STEP + 2)
    spans = data.draw(st.lists(st.tuples(step, step).filter(lambda s: s[0] < s[1]), max_size=8))
    times = np.array(spans, dtype=np.int64).reshape(-1, 2)
    space, offsets, intervals = idle_space(static, plan, times)
    lists = [intervals[a:b] for a, b in pairwise(offsets.tolist())]
    for (begin, end), number in zip(spans, space.tolist(), strict=True):
        idle = set(range(plan.peak)) - occupied_bytes(static, plan, begin, end)
        assert bytes_of(lists[number]) == sorted(idle)
    assert len({found.tobytes() for found in lists}) == len(lists)
    assert list(dict.fromkeys(space.tolist())) == list(range(len(lists)))


@given(dynamic_problems(), st.integers(0, 2**32))
def test_an_allocator_in_the_reusable_space_collides_with_nothing(
    problem: Problem, seed: int
) -> None:
    """Another iteration: dynamic sizes differ, everything is asked for in the same steps."""
    part = static_part(problem)
    plan = place(part.problem)
    space = reusable_space(problem, plan)
    groups = layer_groups(problem)
    group_of = dict(zip(groups.tensors.tolist(), groups.group.tolist(), strict=True))
    offset = dict(zip(part.tensors.tolist(), plan.offsets.tolist(), strict=True))
    rng = random.Random(seed)
    size = problem.size.copy()
    size[groups.tensors] = [rng.randint(0, 6) for _ in group_of]
    for step in range(MAX_STEP):
        for tensor in [t for t in group_of if problem.start[t] == step]:
            held = {
                byte
                for other, start in offset.items()
                if problem.start[other] <= step < problem.end[other]
                and (other in group_of or step in steps_needed(problem, other))
                for byte in range(start, start + int(size[other]))
            }
            free = [[byte, byte + 1] for byte in range(plan.peak) if byte not in held]
            found = space.best_fit(
                group_of[tensor], int(size[tensor]), joined(free), int(problem.alignment[tensor])
            )
            if found is not None:
                offset[tensor] = found
    placed = sorted(offset)
    number = {tensor: index for index, tensor in enumerate(placed)}
    judged = Problem(
        size[placed], problem.start[placed], problem.end[placed],
        alignment=problem.alignment[placed],
        gaps=[(number[t], a, b) for t, a, b in problem.gaps.tolist()
              if t in number and t not in group_of],
    )  # fmt: skip
    check(judged, Plan.of(judged, [offset[tensor] for tensor in placed]))
    assert all(offset[tensor] + size[tensor] <= space.pool for tensor in placed)


def joined(rows: list[list[int]]) -> IntColumn:
    found: list[list[int]] = []
    for start, end in rows:
        if found and found[-1][1] == start:
            found[-1][1] = end
        else:
            found.append([start, end])
    return np.array(found, dtype=np.int64).reshape(-1, 2)


@given(INTERVALS, INTERVALS)
def test_an_intersection_holds_what_both_hold(a: IntColumn, b: IntColumn) -> None:
    both = intersection(a, b)
    assert bytes_of(both) == sorted(set(bytes_of(a)) & set(bytes_of(b)))
    assert (both[:, 0] < both[:, 1]).all()


def hand_made() -> ReusableSpace:
    """Return the space of two groups over a pool of 100 bytes.

        0         20   25      40            60        80        100
    0   [---------)    [-------)             [---------)
    1                  [-------)
    """
    return ReusableSpace(
        100, [[-1, 2, -1, 3], [4, 0, 4, 1]], [[0, 5], [3, 9]], [0, 1], [0, 3, 4],
        [[0, 20], [25, 40], [60, 80], [25, 40]],
    )  # fmt: skip


def test_a_group_is_found_by_its_visits() -> None:
    space = hand_made()
    assert space.group_of((-1, 2), (-1, 3)) == 0
    assert space.group_of((4, 0), (4, 1)) == 1
    assert space.group_of((4, 0), (4, 0)) is None
    assert space.idle_intervals(1).tolist() == [[25, 40]]
    assert np.shares_memory(space.idle_intervals(0), space.intervals)


@pytest.mark.parametrize(
    ("size", "free", "alignment", "expected"),
    [
        (15, None, 1, 25),
        (16, None, 1, 0),
        (20, None, 1, 0),
        (21, None, 1, None),
        (5, [[0, 9], [34, 70]], 1, 34),
        (7, [[0, 9], [34, 70]], 1, 0),
        (10, [[0, 9], [34, 70]], 1, 60),
        (5, [], 1, None),
        (8, None, 32, 32),
        (16, None, 32, 64),
        (17, None, 32, 0),
        (0, None, 1, 25),
    ],
)
def test_the_best_fit_leaves_least(
    size: int, free: list[list[int]] | None, alignment: int, expected: int | None
) -> None:
    column = None if free is None else np.array(free, dtype=np.int64).reshape(-1, 2)
    assert hand_made().best_fit(0, size, column, alignment) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": -1}, "field pool: bytes are at least 0"),
        ({"pool": 79}, r"field intervals, row 2: .* pool of 79 bytes, found \[60, 80\]"),
        ({"visits": [[4, 0, 4, 1], [-1, 2, -1, 3]]}, "field visits, row 1: groups ascend"),
        ({"visits": [[4, 0, 4, 1], [4, 0, 4, 1]]}, "field visits, row 1: groups ascend"),
        ({"visits": [[4, 0, 4, 1]]}, "field times: one entry a group"),
        ({"times": [[0, 5], [9, 9]]}, "field times, row 1"),
        ({"space": [0]}, "field space: one entry a group"),
        ({"space": [0, 2]}, "field space, row 1: a list below 2"),
        ({"offsets": []}, "field space, row 0: a list below -1"),
        ({"offsets": [], "visits": [], "times": [], "space": []}, "found nothing"),
        ({"offsets": [0, 5, 4]}, "field offsets, row 2: lists follow each other"),
        ({"offsets": [1, 3, 4]}, "field offsets: from 0 to the number of intervals, 4"),
        ({"offsets": [0, 4, 4]}, "field intervals, row 3"),
        ({"intervals": [[0, 25], [25, 40], [60, 80], [25, 40]]}, "field intervals, row 1"),
        ({"intervals": [[-5, 20], [25, 40], [60, 80], [25, 40]]}, "field intervals, row 0"),
    ],
)
def test_columns_that_break_a_rule_are_refused(change: dict[str, Any], message: str) -> None:
    space = hand_made()
    columns = {
        name: getattr(space, name)
        for name in ("pool", "visits", "times", "space", "offsets", "intervals")
    }
    with pytest.raises(InstanceError, match=message):
        ReusableSpace(**{**columns, **change})


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
def test_a_written_space_is_read_back(tmp_path: Path, problem: Problem) -> None:
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
        ({"space": [0, 7]}, "field reusable_space, field space, row 1: a list below 2"),
        (
            {"intervals": [[2, 8]]},
            r"group 1: .* the plan, \[\[3, 8\]\], is needed, found \[\[2, 8\]\]",
        ),
        ({"intervals": [[4, 8]]}, "group 1: the idle space of the plan"),
        ({"times": [[0, 4], [3, 6]]}, r"group 1: the idle space of the plan, \[\], is needed"),
        ({"space": [1, 1]}, r"group 0: the idle space of the plan, \[\], is needed"),
        ({"offsets": [0, 1, 1], "space": [1, 0]}, "reusable_space.space: lists in the order"),
    ],
)
def test_a_claim_that_the_plan_refutes(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = saved(tmp_path / "plan.json", **change)
    with pytest.raises(InstanceError, match=message) as caught:
        read_plan(static_part(moe()).problem, path)
    assert str(caught.value).startswith(f"{path}: ")
