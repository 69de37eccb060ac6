"""The cost of a run follows from the moments of its neighbours."""

from __future__ import annotations

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def at(instance: str, second: int, wall_seconds: float = 0.25) -> Record:
    moment = f"2026-01-02T03:04:{second:02}+00:00"
    return record(instance, "naive", moment=moment, wall_seconds=wall_seconds)


def table(*records: Record) -> list[list[str]]:
    text = known_slots()["overhead-table"](PageMaterial("overhead", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def test_what_passes_between_two_runs_is_the_planner_and_the_rest() -> None:
    # Five runs, four times a second from one to the next; the planner has a quarter of it.
    rows = table(*(at("a", second) for second in (2, 1, 3, 4, 5)), at("b", 6), at("b", 9, 1.0))
    assert [row[:7] for row in rows] == [
        ["a", "5", "5", "250", "750", "±250", "208.3"],
        ["b", "5", "2", "625", "2,375", "±1,000", "659.7"],
    ]
    line = len(at("a", 1).to_json()) + 1
    assert rows[0][7] == f"{line:,}"
    assert int(rows[0][8]) < line / 2


def test_one_run_alone_tells_nothing() -> None:
    assert table(at("a", 1)) == []
