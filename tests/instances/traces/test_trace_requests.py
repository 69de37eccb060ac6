"""Requests of traces: order, frees that complete later, what was there before, segments."""

from __future__ import annotations

from typing import Any

from instances.traces.allocation_trace import AllocationTrace, Phase
from instances.traces.trace_requests import requests_of_trace
from planners.model.request_sequence import RequestAction, RequestSequence

ALLOCATE, REQUESTED, COMPLETED, GIVE_BACK = RequestAction


def rows(requests: RequestSequence) -> list[tuple[int, int, int]]:
    columns = (requests.event, requests.action, requests.request)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def trace(*columns: list[int], **others: Any) -> RequestSequence:
    return requests_of_trace(AllocationTrace(10, *columns, **others))


def test_a_free_has_two_rows_where_it_completes_later() -> None:
    requests = trace([5, 6, 7], [0, 1, 2], [6, 4, 10], [6, 8, 10], stream=[0, 9, 0])
    assert rows(requests) == [
        (0, ALLOCATE, 0), (1, ALLOCATE, 1), (2, ALLOCATE, 2), (4, REQUESTED, 1),
        (6, COMPLETED, 0), (8, COMPLETED, 1),
    ]  # fmt: skip
    assert (requests.is_recorded, requests.stream.tolist()) == (True, [0, 9, 0])


def test_a_free_that_completes_next_is_one_row() -> None:
    requests = trace([5, 6], [0, 1], [3, 5], [4, 7])
    assert rows(requests)[2:] == [(4, COMPLETED, 0), (7, COMPLETED, 1)]
    between = trace([5, 6], [0, 1], [3, 5], [6, 7])
    assert rows(between)[2:] == [
        (3, REQUESTED, 0), (5, REQUESTED, 1), (6, COMPLETED, 0), (7, COMPLETED, 1),
    ]  # fmt: skip


def test_a_free_may_never_complete() -> None:
    assert rows(trace([5], [0], [3], [10])) == [(0, ALLOCATE, 0), (3, REQUESTED, 0)]


def test_blocks_from_before_are_requested_first() -> None:
    requests = trace([5, 6], [0, 0], [0, 10], [0, 10], before=[True, False], address=[64, 32])
    assert rows(requests) == [(-1, ALLOCATE, 0), (0, COMPLETED, 0), (0, ALLOCATE, 1)]
    assert requests.address.tolist() == [64, 32]


def test_a_trace_of_frees_alone_asks_for_what_they_free() -> None:
    requests = trace([5, 6], [0, 0], [1, 2], [1, 2], before=[True, True])
    assert requests.action.tolist() == [ALLOCATE, ALLOCATE, COMPLETED, COMPLETED]


def test_requests_for_no_bytes_are_left_out() -> None:
    requests = trace([0, 6, 0], [0, 1, 2], [3, 4, 5], [3, 4, 5])
    assert (rows(requests), requests.size.tolist()) == (
        [(1, ALLOCATE, 0), (4, COMPLETED, 0)], [6],
    )  # fmt: skip


def test_segments_belong_to_the_next_request() -> None:
    requests = trace(
        [5, 6], [1, 6], [3, 10], [3, 10],
        # Kinds: allocated, given back, mapped; the last came for what was not recorded any more.
        segments=[(9, 0, 8, 9, 0), (2, 2, 512, 20, 7), (4, 1, 64, 100, 0), (0, 0, 64, 100, 0)],
    )  # fmt: skip
    assert rows(requests) == [
        (1, ALLOCATE, 0), (3, COMPLETED, 0), (4, GIVE_BACK, 0), (6, ALLOCATE, 1),
    ]  # fmt: skip
    assert requests.segments.tolist() == [[0, 0, 64, 100, 0], [3, 1, 512, 20, 7], [4, 0, 8, 9, 0]]


def test_segments_that_leave_together_are_given_back_at_once() -> None:
    requests = trace(
        [5, 6], [0, 7], [1, 10], [2, 10],
        segments=[(3, 1, 64, 100, 0), (4, 3, 64, 1, 0), (5, 1, 64, 9, 0), (8, 3, 64, 9, 0)],
    )  # fmt: skip
    assert rows(requests) == [
        (0, ALLOCATE, 0), (2, COMPLETED, 0), (5, GIVE_BACK, 0), (7, ALLOCATE, 1), (8, GIVE_BACK, 0),
    ]  # fmt: skip


def test_iterations_begin_at_the_first_row_from_their_mark_on() -> None:
    phases = [Phase.FORWARD, Phase.BACKWARD, Phase.FORWARD, Phase.FORWARD]
    requests = trace(
        [5, 6], [1, 6], [3, 10], [3, 10], mark_event=[0, 1, 4, 9], mark_phase=phases,
        mark_microbatch=[0, 0, 0, 0], mark_iteration=[0, 0, 1, 2],
    )  # fmt: skip
    assert requests.iteration_rows.tolist() == [0, 2, 3]


def test_rows_happen_in_phases_and_modules() -> None:
    phases = [Phase.FORWARD, Phase.BACKWARD, Phase.FORWARD]
    marks: dict[str, Any] = {
        "mark_event": [2, 4, 7], "mark_phase": phases, "mark_microbatch": [0, 0, 0],
        "mark_iteration": [3, 3, 4],
    }  # fmt: skip
    modules: dict[str, Any] = {
        "alloc_module": [-1, 1, 0], "free_module": [1, 0, -1], "module_names": ["net", "net.a"],
    }  # fmt: skip
    columns = [5, 6, 7], [0, 2, 4], [3, 5, 8], [3, 7, 8]
    found = trace(*columns, **marks, **modules, segments=[(6, 1, 64, 9, 0)])
    assert rows(found) == [
        (0, ALLOCATE, 0), (2, ALLOCATE, 1), (3, COMPLETED, 0), (4, ALLOCATE, 2),
        (5, REQUESTED, 1), (6, GIVE_BACK, 0), (7, COMPLETED, 1), (8, COMPLETED, 2),
    ]  # fmt: skip
    assert found.phase.tolist() == [-1, 0, 0, 1, 1, 1, 0, 0]
    assert found.module.tolist() == [-1, 1, 1, 0, 0, -1, 0, -1]
    assert found.module_names == ("net", "net.a")
    unknown = trace(*columns)
    assert len(unknown.phase) == len(unknown.module) == 0
