"""Online allocators one after the other: who is best, and what an interrupt leaves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planners.errors import GaplessError
from planners.model.online_result import OnlineResult, OnlineTerms
from planners.model.problem import Problem
from planners.model.request_sequence import RequestSequence, requests_of_problem
from planners.online.online_report import calls_table, figures_table, online_table
from planners.online.online_run import OnlineRun, run_online
from planners.registry import register_online


@pytest.fixture(autouse=True)
def allocators(own_registry: None) -> None:  # noqa: ARG001
    for name, reserved, ended in (
        ("reserves-9", 9, None), ("reserves-7", 7, None), ("reserves-7-too", 7, None),
        ("ends-early", 7, 1),
    ):  # fmt: skip
        result = OnlineResult(4, 5, reserved, {"take": reserved, "wait": 0}, 2.0, ended)

        @register_online(name)
        def answer(
            _requests: RequestSequence, _terms: OnlineTerms, *, given: OnlineResult = result
        ) -> OnlineResult:
            return given

    @register_online("refuses")
    def refuse(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        raise GaplessError("not these")


def run(*names: str, stop_at: int | None = None) -> OnlineRun:
    started: list[str] = []
    return run_online(
        requests_of_problem(Problem([4], [0], [1])),
        ",".join(names),
        on_start=lambda _index, label: started.append(label),
        is_interrupted=lambda: len(started) == stop_at,
    )


def test_the_least_reserved_of_those_that_served_all_is_best() -> None:
    found = run("reserves-9", "ends-early", "refuses", "reserves-7", "reserves-7-too")
    assert found.best is not None
    assert found.best.label == "reserves-7"
    assert [found.is_best(row) for row in found.rows] == [False, False, False, True, True]
    assert [row.mark for row in online_table(found).rows] == ["", "", "", "*", "*"]


def test_no_allocator_is_best_where_none_served_all() -> None:
    found = run("ends-early", "refuses")
    assert found.best is None
    assert [row.reason for row in found.rows] == ["out of memory at row 1 of 2", "not these"]


FINE: dict[str, Any] = {
    "requested_peak": 4, "allocated_peak": 5, "reserved_peak": 7, "device_calls": {"take": 7},
    "seconds": 2.0,
}  # fmt: skip
WRONG: list[tuple[Any, str]] = [
    ("yes", "an online allocator returns an OnlineResult, found str"),
    (OnlineResult(**FINE | {"reserved_peak": "7"}), "reserved_peak is a whole number of bytes"),
    (OnlineResult(**FINE | {"seconds": math.nan}), "seconds: seconds from 0 on are needed"),
    (OnlineResult(**FINE | {"device_calls": 3}), "AttributeError"),
    (OnlineResult(**FINE | {"statistics": {"a": object()}}), "statistics, a: a string, a number"),
    (OnlineResult(**FINE, out_of_memory_row=3), "out_of_memory_row: the run has fewer rows"),
    (TimeoutError(), "TimeoutError"),
    (OnlineResult(**FINE | {"not_done": 5}), "not_done is a string, found 5"),
    (SystemExit(0), "SystemExit: 0"),
    (ValueError("\x1b[2Ja\nb"), "ValueError: a b"),
    (MemoryError("9 GiB"), "out of memory: 9 GiB"),
]


@pytest.mark.parametrize(("given", "reason"), WRONG, ids=[reason for _, reason in WRONG])
def test_whatever_a_third_party_does_the_others_go_on(given: Any, reason: str) -> None:
    @register_online("hostile")
    def hostile(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        if isinstance(given, BaseException):
            raise given
        answer: OnlineResult = given
        return answer

    found = run("hostile", "reserves-7")
    assert found.rows[0].reason.startswith(reason)
    assert online_table(found).rows[1].mark == "*"


# Two requests of 300 and 500 bytes are live together after row 1; the first ends in row 2.
PLACED: dict[str, Any] = {
    "requested_peak": 0, "allocated_peak": 800, "reserved_peak": 1024, "device_calls": {},
    "seconds": 1.0, "addresses": (1024, 1536), "segments": ((0, 1024, 1024),),
    "reserved": (512, 1024, 1024, 1024), "allocated": (512, 800, 500, 0),
}  # fmt: skip
LIES: dict[str, dict[str, Any]] = {
    "reserved_peak: at least the 800 bytes of allocated_peak are needed, found 1": {
        "reserved_peak": 1
    },
    "allocated_peak: at least the 800 bytes that are live after row 1 are needed, found 1": {
        "allocated_peak": 1
    },
    "reserved_peak: at most the 4096 bytes of the device are there, found 5000": {
        "reserved_peak": 5000
    },
    "reserved_peak is a whole number of bytes from 0 to 2**63 - 1, found -800": {
        "reserved_peak": -800
    },
    "reserved_peak is a whole number of bytes from 0 to 2**63 - 1, found 800.5": {
        "reserved_peak": 800.5
    },
    "reserved_peak: at least the 2048 bytes of reserved, row 0, are needed, found 1024": {
        "reserved": (2048, 1024, 1024, 1024)
    },
    "reserved, row 2: at least the 500 bytes that are live are needed, found -3": {
        "reserved": (512, 1024, -3, 1024)
    },
    "allocated, row 2: at least the 500 bytes that are live are needed, found 499": {
        "allocated": (512, 800, 499, 0)
    },
    "reserved, row 0: at least the 700 bytes that are allocated are needed, found 512": {
        "allocated": (700, 800, 500, 0)
    },
    "addresses, request 1: an address above 0 is needed, found 0": {"addresses": (1024, 0)},
    "addresses, request 0: an address above 0 is needed, found -256": {"addresses": (-256, 1536)},
    "addresses, request 1: an address below 2**62 is needed, found 9223372036854775552": {
        "addresses": (1024, (1 << 63) - 256)
    },
    "addresses, request 1: a multiple of 256 is needed, found 1537": {"addresses": (1024, 1537)},
    "addresses, request 1: bytes of the segments that the device gave are needed, found "
    "[1792, 2292), which none has": {"addresses": (1024, 1792)},
    "addresses: live blocks share no byte, found request 0 at [1024, 1324) and request 1 at "
    "[1280, 1780), both live at row 1": {"addresses": (1024, 1280)},
}


@pytest.mark.parametrize(("reason", "lie"), [("", {}), *LIES.items()], ids=["", *LIES])
def test_an_answer_that_breaks_a_rule_is_invalid(reason: str, lie: dict[str, Any]) -> None:
    columns = {"addresses", "segments", "reserved", "allocated"}
    told = {
        name: np.array(value) if name in columns else value
        for name, value in {**PLACED, **lie}.items()
    }

    @register_online("hostile")
    def hostile(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        return OnlineResult(**told)

    requests = requests_of_problem(Problem([300, 500], [0, 1], [2, 3]))
    (row,) = run_online(requests, "hostile", OnlineTerms(capacity=4096)).rows
    assert (row.valid, row.reason[: len(reason or "x")]) == (not reason, reason)
    # What the requests say is not asked.
    assert row.result is None if reason else row.result and row.result.requested_peak == 800


def test_words_of_an_allocator_have_no_control_characters() -> None:
    @register_online("hostile")
    def hostile(_requests: RequestSequence, _terms: OnlineTerms) -> OnlineResult:
        odd = "\x1b[2Ja\nb"
        return OnlineResult(
            **FINE | {"device_calls": {odd: 1}, "statistics": {odd: odd}, "not_done": odd}
        )

    found = run("hostile")
    assert found.rows[0].reason == "a b"
    tables = [calls_table(found), figures_table(found)]
    assert [table.plain().split("\n")[0].split("  ")[1] for table in tables] == ["a b", "a b"]


def test_an_allocator_that_was_not_asked_and_an_unused_call_have_no_place() -> None:
    table = calls_table(run("reserves-9", "refuses", "reserves-7"))
    assert [column.heading for column in table.columns] == ["device calls", "take"]
    assert [row.cells for row in table.rows] == [("reserves-9", "9"), ("reserves-7", "7")]


def test_none_begins_after_an_interrupt() -> None:
    found = run("reserves-9", "reserves-7", "reserves-7-too", stop_at=1)
    assert [row.label for row in found.rows] == ["reserves-9"]
    assert found.left_out == ("reserves-7", "reserves-7-too")


def test_nothing_reserved_has_no_fragmentation() -> None:
    assert OnlineResult(0, 0, 0, {}, 0.0).fragmentation == 0
    assert OnlineResult(1, 3, 4, {}, 0.0).fragmentation == 0.25


def test_calls_in_which_the_host_waits_are_stalls() -> None:
    calls = {"synchronize": 2, "await_event": 3, "record_event": 50, "make_wait": 7}
    result = OnlineResult(1, 1, 1, calls, 0.0)
    assert (result.stalls, result.call_count) == (5, 62)
