"""The table of what planning costs by the number of tensors."""

from __future__ import annotations

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record, RunStatus
from tests.evaluation.study.made_up_records import record


def timed(tensors: int, planner: str, milliseconds: float, **changes: object) -> Record:
    name = f"graph:tensors={tensors}:streams=2:seed=0"
    fields = {"tensors": tensors, "processor_seconds": 1e-3 * milliseconds, **changes}
    return record(name, planner, **fields)


def parts(tensors: int, safety: float) -> Record:
    seconds = {"safety_seconds": safety, "bound_seconds": 0.004, "referee_seconds": 0.002}
    return timed(tensors, "planning-parts", 90, statistics=seconds, peak_resident_bytes=20 << 20)


def cells(*records: Record) -> list[list[str]]:
    table = known_slots()["planning-costs"](PageMaterial("scaling", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]


def test_a_number_of_tensors_is_a_line_with_medians() -> None:
    found = cells(
        timed(4000, "auto", 8),
        parts(1000, 0.001),
        parts(1000, 0.003),
        parts(1000, 0.009),
        timed(1000, "auto", 2),
        timed(1000, "auto", 2, status=RunStatus.CRASHED, processor_seconds=None),
        timed(1000, "naive", 1, timed=False),
    )
    assert found[0] == [
        "graph:streams=2: tensors", "safety", "bound", "auto", "referee", "memory, MiB",
    ]  # fmt: skip
    assert found[2:] == [
        ["1,000", "3 (3)", "4 (4)", "2 (2)", "2 (2)", "20"],
        ["4,000", "-", "-", "8 (2)", "-", "-"],
    ]


def test_each_family_has_a_table() -> None:
    other = record("trace:tensors=7:seed=0", "auto", tensors=7)
    headings = [row[0] for row in cells(timed(9, "auto", 1), other) if row and "tensors" in row[0]]
    assert headings == ["graph:streams=2: tensors", "trace: tensors"]


def test_nothing_timed_shows_nothing() -> None:
    assert cells(timed(9, "auto", 1, timed=False)) == []
