"""Planners family by family: medians and worst gaps, each against its own reference."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.findings.family_tables import (
    family_table,
    on_family,
    planner_family_table,
    planner_table,
)
from evaluation.findings.studied_instances import StudiedInstance, studied_instances
from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record, RunStatus
from planners.text.table import Table
from tests.evaluation.study.made_up_records import record

SOLVED = RunStatus.OPTIMAL
# Three drawn instances above a bound of 10: solved with 10; open at 11; open at 15.
RECORDS = [
    record("a", "greedy", 12, family="drawn", tensors=3),
    record("a", "exact", 10, family="drawn", tensors=3, status=SOLVED),
    record("b", "greedy", 11, family="drawn", tensors=7),
    record("b", "exact", 11, family="drawn", tensors=7),
    record("c", "greedy", 15, family="drawn", tensors=5),
    record("c", "exact", None, family="drawn", tensors=5),
    record("d", "greedy", 10, family="other", status=SOLVED),
    record("d", "exact", 12, family="other"),
]


def instances(records: Sequence[Record] = RECORDS) -> list[StudiedInstance]:
    return studied_instances(PageMaterial("made-up", records))


def rows_of(table: Table) -> list[list[str]]:
    return [list(row.cells) for row in table.rows]


def test_a_line_a_family_counts_what_is_solved_and_open() -> None:
    assert rows_of(family_table(instances())) == [
        ["drawn", "3", "3 to 7", "1", "0", "2", "10.000 %", "50.000 %"],
        ["other", "1", "5 to 5", "1", "0", "0", "0 %", "0 %"],
    ]


def test_gaps_stand_where_a_planner_has_every_plan() -> None:
    table = planner_family_table(instances())
    assert [column.heading for column in table.columns] == ["planner", "drawn", "other"]
    assert rows_of(table) == [
        ["greedy", "**20.000 % (50.000 %)**", "**0 % (0 %)**"],
        ["exact", "2 of 3", "20.000 % (20.000 %)"],
    ]


def test_a_planner_that_was_not_run_on_a_family_has_no_cell() -> None:
    lowest = record("a", "search", 10, family="drawn", tensors=3)
    rows = rows_of(planner_family_table(instances([*RECORDS[:2], *RECORDS[6:], lowest])))
    # Nothing is missing of what was not asked of it, so it stands among the others.
    assert rows[0] == ["search", "**0 % (0 %)**", "-"]


def test_each_gap_has_its_own_reference() -> None:
    its = planner_table(on_family(instances()[:3]))
    assert rows_of(its) == [
        [
            "greedy",
            "3",
            "3",
            "0 %",
            "20.000 %",
            "50.000 %",
            "20.000 %",
            "20.000 %",
            "0 %",
            "20.000 %",
        ],
        ["exact", "3", "2", "33 %", "5.000 %", "10.000 %", "0 %", "0 %", "0 %", "0 %"],
    ]
    # What has a plan of every instance is the best, whatever the gaps of the others.
    assert [row.mark for row in its.rows] == ["*", ""]


def test_a_planner_without_any_plan_is_last() -> None:
    records = [record("a", "none", None), record("a", "some", 12)]
    table = planner_table(on_family(instances(records)))
    assert [row[0] for row in rows_of(table)] == ["some", "none"]
    assert rows_of(table)[1][4:] == ["-"] * 6
    assert rows_of(planner_family_table(instances(records)))[1] == ["none", "0 of 1"]


def test_the_page_has_a_table_a_family() -> None:
    text = fill("{family-planner-tables}", PageMaterial("made-up", RECORDS), "words")
    assert text.startswith("### drawn\n\n| planner ")
    assert "\n\n### other\n\n| planner " in text
