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


def test_a_static_part_keeps_the_columns_of_its_tensors() -> None:
    problem = problem_of([True, False, True, False, False], contiguous=[(4, 3)], name="moe")
    part = static_part(problem)
    assert part.tensors.tolist() == [1, 3, 4]
    assert part.problem.size.tolist() == [9, 11, 12]
    assert part.problem.contiguous == ((2, 1),)
    assert part.problem.dynamic is None
    assert (part.problem.name, dict(part.problem.origin)) == ("moe, static", {"static_part": True})


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
