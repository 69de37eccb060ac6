"""What online allocators took, where the device times its calls."""

from __future__ import annotations

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from planners.model.problem import Scalar
from tests.evaluation.claims.made_up_records import record
from tests.evaluation.findings.homosize_records import slot_rows

TIMES: dict[str, Scalar] = {
    "rows": 1000,
    "allocator_seconds": 0.002,
    "last_iteration_seconds": 0.0003,
    "last_iteration_rows": 100,
    "map_calls": 4,
    "map_seconds": 0.001,
    "unmap_calls": 0,
    "unmap_seconds": 0.0,
    "other_seconds": 0.0005,
    "device": "A GPU",
}


def served(run: str, planner: str, **statistics: Scalar) -> Record:
    return record(
        f"{run}.npz", planner, 4, kind="online", allocated=3, tensors=600, statistics=statistics
    )


RECORDS = (
    served("b", "vpmm", **TIMES),
    served("a", "stweaver", **{**TIMES, "last_iteration_rows": 0, "create_pages_calls": 2,
                               "create_pages_seconds": 0.00001}),
    served("a", "gmlake", rows=1000, allocator_seconds=1.0, map_calls=9),
)  # fmt: skip


def test_times_are_of_an_event_and_of_the_last_iteration() -> None:
    assert slot_rows("allocator-times-table", *RECORDS)[1:] == [
        ["a", "stweaver", "2", "75.5 %", "-"],
        ["b", "vpmm", "2", "75.0 %", "3"],
    ]


def test_a_call_is_timed_in_the_mean_of_its_kind() -> None:
    assert slot_rows("call-times-table", *RECORDS) == [
        ["run", "allocator", "map", "create_pages"],
        ["a", "stweaver", "4 x 250", "2 x 5"],
        ["b", "vpmm", "4 x 250", "-"],
    ]


def test_the_device_is_named_once() -> None:
    named = known_slots()["timed-device"](PageMaterial("made-up", RECORDS))
    assert named == "A GPU"


def test_requests_are_counted_for_every_run() -> None:
    assert slot_rows("requests-table", *RECORDS)[1:] == [["a", "600", "1,000"],
                                                         ["b", "600", "1,000"]]  # fmt: skip


def test_a_ledger_has_no_times() -> None:
    assert slot_rows("allocator-times-table", RECORDS[2]) == []
    assert slot_rows("call-times-table", RECORDS[2]) == []
