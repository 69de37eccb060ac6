"""The table of what it takes from a file to a judged plan."""

from __future__ import annotations

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def planned(tensors: int, file: str, seconds: float, **changes: object) -> Record:
    told = {
        "file": file, "file_bytes": 3 << 20, "processor_seconds": seconds,
        "peak_resident_bytes": 400 << 20,
    }  # fmt: skip
    fields = {"tensors": tensors, "statistics": told, **changes}
    return record(f"trace:tensors={tensors}:seed=0", "planned-file", **fields)


def cells(*records: Record) -> list[list[str]]:
    table = known_slots()["file-costs"](PageMaterial("scaling", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]


def test_a_format_is_a_line_with_medians_of_what_the_process_said() -> None:
    found = cells(
        planned(1_000_000, "json", 9),
        planned(1_000_000, "json", 2),
        planned(1_000_000, "json", 3),
        planned(1_000, "json", 0.5),
        planned(1_000_000, "csv", 4),
        planned(1_000_000, "csv", 1, timed=False),
        record("trace:tensors=7:seed=0", "auto", tensors=7),
    )
    assert found[0] == ["tensors", "file", "file, MiB", "CPU, s", "CPU a tensor, us", "memory, MiB"]
    assert found[2:] == [
        ["1,000", "json", "3", "0.5", "500", "400"],
        ["1,000,000", "csv", "3", "4", "4", "400"],
        ["1,000,000", "json", "3", "3", "3", "400"],
    ]
