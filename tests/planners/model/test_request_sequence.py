"""Requests in their order: what a sequence holds, and how it refuses the rest."""

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

ALLOCATE, REQUESTED, FREED, GIVE_BACK = RequestAction


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
        (0, ALLOCATE, 0), (0, ALLOCATE, 1), (2, FREED, 0), (2, ALLOCATE, 2),
        (5, FREED, 1), (5, FREED, 2), (5, ALLOCATE, 3), (7, FREED, 3),
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
        (ALLOCATE, 0), (ALLOCATE, 1), (FREED, 0), (FREED, 1),
    ]  # fmt: skip
    assert requests.phase.tolist() == [-1, 0, 0, 1]
    assert requests.module.tolist() == [-1, 7, 9, 8]
    nowhere = requests_of_problem(Problem([4], [0], [1]))
    assert len(nowhere.phase) == len(nowhere.module) == 0


@pytest.mark.parametrize(
    ("field", "column", "message"),
    [
        ("phase", [0], "one entry a row is needed, or none, found 1 for 2 rows"),
        ("phase", [0, -2], "row 1: -1 or more is needed, found -2"),
        ("module", [0], "one entry a row is needed, or none, found 1 for 2 rows"),
        ("module", [0, -2], "row 1: -1 or more is needed, found -2"),
        ("pool", [0], "one entry a row is needed, or none, found 1 for 2 rows"),
        ("pool", [0, -1], "row 1: 0 or more is needed, found -1"),
    ],
)
def test_columns_of_rows_are_checked(field: str, column: list[int], message: str) -> None:
    requests = requests_of_problem(Problem([4], [0], [1]))
    with pytest.raises(InstanceError, match=f"field {field}.*{message}"):
        replace(requests, **{field: np.array(column)})  # type: ignore[arg-type]


def test_rows_and_live_bytes_of_requests() -> None:
    allocate, later, completed = ALLOCATE, RequestAction.FREE_REQUESTED, FREED
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


def test_requests_are_live_from_their_allocation_to_their_free() -> None:
    requests = requests_of_problem(Problem([1, 2, 3], [0, 1, 2], [2, 9, 3]))
    assert [requests.live_after(count).tolist() for count in range(7)] == [
        [], [0], [0, 1], [1], [1, 2], [1], [],
    ]  # fmt: skip


# Two requests; the first one is freed in two steps, the second one in one.
SOUND = RequestSequence(
    "sound",
    action=np.array([ALLOCATE, ALLOCATE, REQUESTED, FREED, GIVE_BACK, FREED]),
    request=np.array([0, 1, 0, 1, 0, 0]),
    event=np.arange(6),
    size=np.array([4, 9]),
    stream=np.array([0, 0]),
    segments=np.array([[6, 0, 8, 16, 0]]),
    iteration_rows=np.array([0, 6]),
)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("action", [0, 0, 1, 2, 3, 4], "field action, row 5: 0 to 3 is needed, found 4"),
        ("action", [0, 0, 1, 2], "field request: one entry a row is needed, found 6 for 4 rows"),
        ("event", [0], "field event: one entry a row is needed, found 1 for 6 rows of field act"),
        ("stream", [0], "field stream: one entry a request is needed, found 1 for 2 requests"),
        ("address", [8], "field address: one entry a request is needed, or none, found 1 for 2"),
        ("size", [4.0, 9.0], "field size: one dimension of whole numbers is needed, found float64"),
        ("size", [[4, 9]], r"field size: one dimension .* found int64 of shape \(1, 2\)"),
        ("size", [4, 0], "field size, request 1: a request is for 1 byte or more, found 0"),
        ("size", [1 << 61, 1 << 61], "field size: all requests together must stay below"),
        ("request", [0, 1, 0, 1, 1, 0], "row 4: one of 2 requests is needed, 0 where .* found 1"),
        ("request", [0, 1, -1, 1, 0, 0], "row 2: one of 2 requests is needed, 0 where .* -1"),
        ("request", [1, 0, 0, 1, 0, 0], "field request: 2 requests are made once each, in the"),
        ("request", [0, 0, 0, 1, 0, 0], "field request: 2 requests are made once each, in the"),
        ("request", [0, 1, 0, 1, 0, 1], "row 5: a request is freed once, after .* request 1"),
        ("action", [0, 0, 1, 2, 3, 1], "row 5: a request is freed once, after .* request 0"),
        ("action", [0, 0, 2, 2, 3, 1], "row 2: a request is freed once, after .* request 0"),
        ("segments", [[0, 0, 0, 0]], "field segments: rows of 5 whole numbers are needed"),
        ("segments", [[7, 0, 0, 0, 0]], "field segments, entry 0: a row up to 6 is needed, and"),
        ("segments", [[0, 2, 0, 0, 0]], "field segments, entry 0: .* found 0 and 2"),
        ("iteration_rows", [0, 7], "field iteration_rows, entry 1: a row up to 6 is needed, fou"),
        ("iteration_rows", [[0]], "field iteration_rows: one dimension is needed, found 2"),
        ("module", [0, 0, 0, 0, 0, 2], "field module, row 5: 2 modules have names, found 2"),
        ("module_names", ("a", 1), "field module_names, module 1: a string of printable"),
    ],
)
def test_a_column_that_breaks_a_rule_is_named(field: str, value: object, message: str) -> None:
    names = {"module_names": ("a", "b")} if field == "module" else {}
    given = value if field == "module_names" else np.array(value)
    with pytest.raises(InstanceError, match=message):
        replace(SOUND, **{field: given}, **names)  # type: ignore[arg-type]


def test_nothing_is_freed_before_it_is_made() -> None:
    action = np.array([ALLOCATE, FREED, ALLOCATE, REQUESTED, GIVE_BACK, FREED])
    with pytest.raises(InstanceError, match="row 1: a request is freed once, after it was made"):
        replace(SOUND, action=action, request=np.array([0, 1, 1, 0, 0, 0]))


def test_a_request_that_never_ends_is_sound() -> None:
    assert replace(SOUND, action=SOUND.action[:2], request=SOUND.request[:2],
                   event=SOUND.event[:2], segments=SOUND.segments[:0],
                   iteration_rows=SOUND.iteration_rows[:1]).row_count == 2  # fmt: skip
