"""Peak, time and memory of every planner: the best is the lowest, then the fastest."""

from __future__ import annotations

from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record, RunStatus
from tests.evaluation.study.made_up_records import record


def page_of(*records: Record) -> str:
    return fill("{planner-costs}", PageMaterial("peers", records), "peers.md")


def test_the_best_is_the_lowest_then_the_fastest() -> None:
    page = page_of(
        record("a", "invalid", None, status=RunStatus.INVALID, processor_seconds=1e-6),
        record("a", "high", 12, processor_seconds=1e-5),
        record("a", "slow", 11, processor_seconds=1e-2),
        record("a", "fast", 11, processor_seconds=2e-3, peak_resident_bytes=3 << 19),
        record("a", "fast", 11, processor_seconds=4e-3, peak_resident_bytes=3 << 19, run="again"),
    )
    lines = page.splitlines()
    assert lines[0] == "### a, 5 tensors, lifetime bound 10 bytes"
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[4:]]
    assert cells == [
        ["invalid", "invalid", "-", "0.001", "0.001", "-"],
        ["high", "12", "20.000 %", "0.01", "0.01", "-"],
        ["slow", "11", "10.000 %", "10", "10", "-"],
        ["**fast**", "11", "10.000 %", "3", "4", "1.5"],
    ]


def test_a_duel_has_no_table() -> None:
    assert page_of(record("a", "one"), record("a", "other")) == "\n"
