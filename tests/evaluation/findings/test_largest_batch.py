"""Which batch fits is read from peaks, and nothing is said beyond the batches that were run."""

from __future__ import annotations

import pytest

from evaluation.findings.largest_batch import batch_table, peak_table
from evaluation.report.cases import cases_of
from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record


def records() -> list[Record]:
    made = []
    for batch in (8, 16, 24, 32):
        name = f"net:batch={batch}"
        made.append(record(name, "planned", batch << 30))
        made.append(record(name, "taken", int(batch * 1.25) << 30, kind="online", bounds={}))
    return made


def lines(*memories: str) -> list[tuple[str, ...]]:
    return [tuple(row.cells) for row in batch_table("net", cases_of(records()), memories).rows]


def test_the_largest_batch_that_fits_is_shown_with_the_gain() -> None:
    assert lines("20GiB", "19GiB", "24GiB") == [
        ("20GiB", "16", "16", "+0.0%"),
        ("19GiB", "16", "8", "+100.0%"),
        ("24GiB", "24", "16", "+50.0%"),
    ]


def test_nothing_is_said_beyond_what_was_run() -> None:
    assert lines("7GiB", "9GiB", "33GiB") == [
        ("7GiB", "-", "-", "-"),
        ("9GiB", "8", "-", "-"),
        ("33GiB", "at least 32", "24", "-"),
    ]


def test_the_page_says_which_memories() -> None:
    material = PageMaterial("made-up", records(), {"memories": ["20GiB"]})
    filled = fill("# T\n\n{largest-batch}\n", material, "x")
    assert "| net: memory" in filled
    assert "| 20GiB" in filled
    with pytest.raises(GaplessError, match=r"page\.memories"):
        fill("{largest-batch}", PageMaterial("made-up", records()), "x")


def test_each_batch_has_the_best_plan_and_what_allocators_take_more() -> None:
    table = peak_table("net", cases_of(records()))
    assert [column.heading for column in table.columns][1:] == [
        "best plan (GiB)", "taken (GiB)", "above",
    ]  # fmt: skip
    assert tuple(table.rows[1].cells) == ("16", "16.00", "20.00", "+25.00%")
    alone = cases_of([each for each in records() if each.planner == "taken"])
    assert tuple(peak_table("net", alone).rows[0].cells) == ("8", "-", "10.00", "-")


def test_streams_make_a_series_of_their_own() -> None:
    both = [
        record(f"net:streams={streams}:batch=8", "planned", 8 << 30)
        for streams in ("roles", "category")
    ]
    filled = fill("{peaks-by-batch}", PageMaterial("made-up", both), "x")
    assert filled.count("best plan (GiB)") == 2
    assert "net:streams=category: batch" in filled
