"""The static part of a problem: which tensors it has, and what of the rest it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from planners.dynamic.static_part import static_part
from planners.errors import InstanceError
from planners.model.graph import Graph
from planners.model.plan import Plan
from planners.model.problem import Problem
from tests.definitions import unsafe
from tests.planners.dynamic.dynamic_problems import dynamic_problems


def problem_of(dynamic: list[bool], **more: Any) -> Problem:
    count = len(dynamic)
    return Problem([8 + i for i in range(count)], [0] * count, [5] * count, dynamic=dynamic, **more)


def test_everything_a_static_tensor_has_comes_along() -> None:
    problem = problem_of(
        [True, False, True, False, False],
        alignment=[1, 2, 4, 1, 1], contiguous=[(4, 3)], pinned={0: 7, 1: 64},
        gaps=[(0, 1, 2), (1, 2, 3)], capacity=99, layer_start=[0, 1, 2, 3, 4],
        phase_end=[5, 6, 7, 8, 9], tensor_name=list("abcde"), name="moe", origin={"x": 1},
    )  # fmt: skip
    part = static_part(problem)
    assert part.tensors.tolist() == [1, 3, 4]
    static = part.problem
    assert static.size.tolist() == [9, 11, 12]
    assert static.alignment.tolist() == [2, 1, 1]
    assert static.contiguous == ((2, 1),)
    assert static.pinned.tolist() == [64, -1, -1]
    assert static.gaps.tolist() == [[0, 2, 3]]
    assert static.capacity == 99
    assert static.tensor_name == ("b", "d", "e")
    assert static.layer_start is not None
    assert static.layer_start.tolist() == [1, 3, 4]
    assert static.phase_end is not None
    assert static.phase_end.tolist() == [6, 8, 9]
    assert (static.layer_end, static.phase_start, static.dynamic) == (None, None, None)
    assert (static.name, dict(static.origin)) == ("moe, static", {"x": 1, "static_part": True})


def test_a_plan_of_the_whole_has_a_static_part() -> None:
    part = static_part(problem_of([True, False, False]))
    plan = part.plan_within(Plan([40, 0, 9], 48))
    assert plan.offsets.tolist() == [0, 9]
    assert plan.peak == 19


def test_without_dynamic_tensors_it_is_the_problem() -> None:
    for problem in (problem_of([False, False]), Problem([3], unsafe_pairs=[])):
        part = static_part(problem)
        assert part.problem is problem
        assert part.tensors.tolist() == list(range(problem.tensor_count))


@given(dynamic_problems())
def test_static_tensors_are_unsafe_as_before(problem: Problem) -> None:
    part = static_part(problem)
    number = part.tensors.tolist()
    there = {(number[a], number[b]) for a, b in unsafe(part.problem)}
    assert there == {pair for pair in unsafe(problem) if set(pair) <= set(number)}


def test_chains_and_graphs_with_dynamic_tensors_are_refused() -> None:
    with pytest.raises(InstanceError, match=r"chain 0: .* found tensor 1, which is dynamic"):
        static_part(problem_of([False, True], contiguous=[(0, 1)]))
    graph = Graph(op=["a"], stream=[0], producer=[0], consumers=[[]], control=[])
    with pytest.raises(InstanceError, match="where graph decide"):
        static_part(Problem([1], graph=graph, dynamic=[True]))
