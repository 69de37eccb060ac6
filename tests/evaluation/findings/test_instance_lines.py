"""A line an instance: what is known of it, who came how near, and what is open."""

from __future__ import annotations

from evaluation.findings.instance_lines import known_table, nearest_table, unsolved_table
from evaluation.findings.studied_instances import StudiedInstance, studied_instances
from evaluation.report.slots import PageMaterial
from evaluation.study.record import RunStatus
from instances.catalogue.catalogue_file import read_catalogue
from planners.text.table import Table
from tests.evaluation.study.made_up_records import record

MB = 1_000_000


def instances() -> list[StudiedInstance]:
    bert = {"instance_digest": read_catalogue()["bert"].facts.digest, "bounds": {"lifetime": MB}}
    packing = {
        "instance_digest": read_catalogue()["synthetic-guillotine-60"].facts.digest,
        "bounds": {"lifetime": 2_097_152},
    }
    records = [
        record("bert", "naive", 4 * MB, **bert),
        record("bert", "greedy-size-first", 3 * MB, **bert),
        record("bert", "greedy-size-best", 2 * MB, **bert),
        record("bert", "greedy-unsafe-best", 2 * MB, **bert),
        record("bert", "many-objects-size-first", 3 * MB, **bert),
        record("bert", "auto", 2 * MB, **bert),
        record("packing", "auto", 4 * 2_097_152, **packing),
        record("drawn", "auto", 10, family="drawn", status=RunStatus.OPTIMAL),
        record("drawn", "pressure", 11, family="drawn"),
    ]
    return studied_instances(PageMaterial("made-up", records))


def rows_of(table: Table) -> list[list[str]]:
    return [list(row.cells) for row in table.rows]


def test_what_is_known_of_each() -> None:
    assert rows_of(known_table(instances())) == [
        ["bert", "5", "17", "15", "4.00x", "1.000", "lifetime", "2.000", "greedy-size-best", "2",
         "100.0 %", "open"],
        ["packing", "5", "1", "0", "-", "2.097", "lifetime", "8.389", "auto", "0", "300.0 %",
         "by construction"],
        ["drawn", "5", "-", "-", "-", "0.000", "lifetime", "0.000", "auto", "0", "0 %", "proven"],
    ]  # fmt: skip


def test_the_best_of_each_kind() -> None:
    bert, _, drawn = rows_of(nearest_table(instances()))
    assert bert == [
        "bert", "5", "size-best", "100.0 %", "size-first", "200.0 %", "-", "100.0 %", "feasible",
    ]  # fmt: skip
    assert drawn == ["drawn", "5", "-", "-", "-", "-", "10.000 %", "0 %", "optimal"]


def test_what_is_not_solved_stands_by_what_is_left() -> None:
    rows = rows_of(unsolved_table(instances()))
    assert [(row[0], *row[-2:]) for row in rows] == [
        ("packing", "300.0 %", "by construction"),
        ("bert", "100.0 %", "open"),
    ]
