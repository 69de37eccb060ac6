"""What an instance asks of an allocator that knows nothing ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planners.errors import InstanceError
from planners.model.graph import Graph
from planners.model.problem import Problem
from planners.model.request_sequence import (
    RequestAction,
    RequestSequence,
    requests_of_problem,
)

ALLOCATE, FREE = RequestAction.ALLOCATE, RequestAction.FREE_COMPLETED


def rows(requests: RequestSequence) -> list[tuple[int, int, int]]:
    columns = (requests.event, requests.action, requests.request)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_ends_come_before_what_begins_at_the_same_step() -> None:
    #   step     0   2   5   7
    #   6        [---)
    #   4            [---)
    #   9        [-------)
    #   1                [---)
    requests = requests_of_problem(Problem([4, 6, 9, 1], [2, 0, 0, 5], [5, 2, 5, 7]))
    assert requests.size.tolist() == [6, 9, 4, 1]
    assert rows(requests) == [
        (0, ALLOCATE, 0), (0, ALLOCATE, 1), (2, FREE, 0), (2, ALLOCATE, 2),
        (5, FREE, 1), (5, FREE, 2), (5, ALLOCATE, 3), (7, FREE, 3),
    ]  # fmt: skip
    assert not requests.is_recorded
    assert requests.stream.tolist() == [0, 0, 0, 0]


def test_nothing_is_asked_for_no_bytes() -> None:
    requests = requests_of_problem(Problem([0, 5], [0, 1], [3, 2]))
    assert (requests.size.tolist(), requests.row_count) == ([5], 2)


def test_a_request_comes_from_the_stream_of_its_producer() -> None:
    graph = Graph(op=["a", "b"], stream=[3, 8], producer=[1, 0], consumers=[[], [1]])
    requests = requests_of_problem(Problem([5, 6], graph=graph))
    assert requests.size.tolist() == [6, 5]
    assert requests.stream.tolist() == [3, 8]


def test_rows_happen_in_the_phases_and_layers_of_an_instance() -> None:
    problem = Problem(
        [4, 6], [1, 0], [5, 3], phase_start=[0, -1], phase_end=[1, 0],
        layer_start=[7, -1], layer_end=[8, 9],
    )  # fmt: skip
    requests = requests_of_problem(problem)
    assert [row[1:] for row in rows(requests)] == [
        (ALLOCATE, 0), (ALLOCATE, 1), (FREE, 0), (FREE, 1),
    ]  # fmt: skip
    assert requests.phase.tolist() == [-1, 0, 0, 1]
    assert requests.module.tolist() == [-1, 7, 9, 8]
    nowhere = requests_of_problem(Problem([4], [0], [1]))
    assert len(nowhere.phase) == len(nowhere.module) == 0


@pytest.mark.parametrize(
    ("column", "message"),
    [([0], "one entry a row is needed, or none, found 1 for 2 rows"),
     ([0, -2], "row 1: -1 or more is needed, found -2")],
)  # fmt: skip
@pytest.mark.parametrize("field", ["phase", "module"])
def test_where_rows_happen_is_checked(field: str, column: list[int], message: str) -> None:
    requests = requests_of_problem(Problem([4], [0], [1]))
    with pytest.raises(InstanceError, match=f"field {field}.*{message}"):
        replace(requests, **{field: np.array(column)})  # type: ignore[arg-type]


def test_rows_and_live_bytes_of_requests() -> None:
    allocate, later, completed = ALLOCATE, RequestAction.FREE_REQUESTED, FREE
    action = np.array([allocate, allocate, later, allocate, completed])
    request = np.array([0, 1, 0, 2, 0])
    size = np.array([5, 7, 1])
    requests = RequestSequence("late", action, request, np.arange(5), size, np.zeros(3, np.int64))
    assert requests.allocation_rows.tolist() == [0, 1, 3]
    assert requests.completion_rows.tolist() == [4, 5, 5]
    assert requests.live_bytes(size).tolist() == [5, 12, 7, 8, 8]
    assert requests.live_bytes(np.array([0, 7, 0])).tolist() == [0, 7, 7, 7, 7]


def test_explicit_pairs_have_no_time() -> None:
    with pytest.raises(InstanceError, match="lifetimes are needed"):
        requests_of_problem(Problem([5, 6], unsafe_pairs=[(0, 1)]))


def test_what_lives_after_some_rows() -> None:
    requests = requests_of_problem(Problem([1, 2, 3], [0, 1, 2], [2, 9, 3]))
    assert [requests.live_after(count).tolist() for count in range(7)] == [
        [], [0], [0, 1], [1], [1, 2], [1], [],
    ]  # fmt: skip
