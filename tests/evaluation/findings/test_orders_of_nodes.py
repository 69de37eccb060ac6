"""Tables of what the order of nodes costs."""

from __future__ import annotations

import pytest

from evaluation.report.slots import PageMaterial, known_slots
from evaluation.study.record import Record
from tests.evaluation.study.made_up_records import record


def searched(instance: str, reordered: int, least: int, streams: str = "kept") -> Record:
    """Return a search on a graph whose given order is worth 1,000 bytes."""
    statistics = {
        "nodes": 2000, "given": 1000, "reordered": reordered, "least": least,
        "certificate": "forced", "given_peak": 1010, "reordered_peak": reordered,
    }  # fmt: skip
    return record(
        instance, "reorderings", 1010, parameters={"streams": streams}, statistics=statistics
    )


def cells(name: str, *records: Record) -> list[list[str]]:
    table = known_slots()[name](PageMaterial("reordering", records))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()][2:]


def test_a_line_says_what_is_saved_and_what_is_open() -> None:
    records = [searched("bert", 800, 600), searched("bert", 900, 900, streams="one")]
    (kept,) = cells("reordered-streams", *records)
    assert [cell.strip("*") for cell in kept] == [
        "bert", "2,000", "1,000", "800", "200", "20.000 %", "600", "forced", "25.000 %", "210",
    ]  # fmt: skip
    (alone,) = cells("reordered-alone", *records)
    assert [alone[index].strip("*") for index in (3, 5, 8)] == ["900", "10.000 %", "0 %"]


def test_the_graph_that_saves_most_is_marked() -> None:
    found = cells("reordered-streams", searched("bert", 990, 990), searched("vit", 800, 800))
    assert [any("**" in cell for cell in row) for row in found] == [False, True]


def test_graphs_are_counted() -> None:
    found = cells(
        "reordered-counts",
        searched("bert", 800, 800), searched("vit", 995, 900), searched("pangu", 1000, 1000),
    )  # fmt: skip
    assert found == [["kept", "3", "2", "1", "20.000 %", "2"]]


@pytest.mark.parametrize("name", ["reordered-streams", "reordered-alone", "reordered-counts"])
def test_nothing_found_shows_nothing(name: str) -> None:
    assert cells(name, record("bert", "auto")) == []
