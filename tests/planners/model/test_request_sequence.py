"""What an instance asks of an allocator that knows nothing ahead."""

from __future__ import annotations

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


def test_explicit_pairs_have_no_time() -> None:
    with pytest.raises(InstanceError, match="lifetimes are needed"):
        requests_of_problem(Problem([5, 6], unsafe_pairs=[(0, 1)]))


def test_what_lives_after_some_rows() -> None:
    requests = requests_of_problem(Problem([1, 2, 3], [0, 1, 2], [2, 9, 3]))
    assert [requests.live_after(count).tolist() for count in range(7)] == [
        [], [0], [0, 1], [1], [1, 2], [1], [],
    ]  # fmt: skip
