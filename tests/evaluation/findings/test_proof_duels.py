"""The tables of proofs on made-up records: answers, costs, ratios, totals."""

from __future__ import annotations

import pytest

from evaluation.study.record import Record, RunStatus
from tests.evaluation.findings.exact_records import FITS, LEAST, late, ours, table, theirs

FIT_SLOT, PEAK_SLOT = "fits-beside-supermalloc", "smallest-peaks-beside-supermalloc"
PROVEN = {"peak": 10, "status": RunStatus.OPTIMAL}


def test_nothing_is_shown_where_nothing_was_asked() -> None:
    assert table(FIT_SLOT) == table(PEAK_SLOT) == []
    assert table(FIT_SLOT, ours(LEAST)) == table(PEAK_SLOT, ours(FITS)) == []
    assert table(FIT_SLOT, theirs()) == []


def test_a_row_has_the_median_the_worst_and_ratios_and_marks_the_least() -> None:
    headings, row, total = table(
        FIT_SLOT,
        *(ours(seconds=seconds, seed=seed) for seed, seconds in enumerate((3, 1, 0.5))),
        theirs(seconds=8, **late()),
        theirs(seconds=4, threads=3),
    )
    assert headings[5:] == [
        "ours, ms", "worst, ms",
        "SuperMalloc on 1 thread, ms", "worst, ms", "ratio",
        "SuperMalloc on 3 threads, ms", "worst, ms", "ratio",
    ]  # fmt: skip
    assert row[:5] == ["a.12.csv", "5", "10", "12", "fits"]
    assert row[5:] == ["**1,000**", "3,000", "- (10 s)", "-", ">8.0x", "4,000", "4,000", "4.0x"]
    assert total[5:] == ["1,000", "3,000", ">8,000", ">8,000", ">8.0x", "4,000", "4,000", "4.0x"]


def test_totals_are_sums_over_the_instances() -> None:
    other = "b.12.csv:capacity=12"
    *_, total = table(
        FIT_SLOT, ours(seconds=1), ours(other, 2), theirs(seconds=4), theirs(other, 5)
    )
    assert total == ["all", "", "", "", "", "3,000", "3,000", "9,000", "9,000", "3.0x"]


@pytest.mark.parametrize(
    ("mine", "other", "ratio"),
    [
        (ours(seconds=1), theirs(seconds=4), "4.0x"),
        (ours(seconds=1), theirs(seconds=8, **late()), ">8.0x"),
        (ours(seconds=2, **late()), theirs(seconds=1), "<0.5x"),
        (ours(seconds=2, **late()), theirs(seconds=8, **late()), "-"),
        (ours(seconds=1), theirs(seconds=None, **late(status=RunStatus.TIMED_OUT)), ">10.0x"),
        (ours(seconds=1), theirs(seconds=0, **late(status=RunStatus.UNSUPPORTED)), "-"),
    ],
)
def test_a_ratio_says_where_the_time_was_over(mine: Record, other: Record, ratio: str) -> None:
    _, row, total = table(FIT_SLOT, mine, other)
    assert row[-1] == total[-1] == ratio


@pytest.mark.parametrize(
    ("records", "answer"),
    [
        ([ours()], "fits"),
        ([ours(**late(status=RunStatus.INFEASIBLE))], "does not fit"),
        ([ours(), ours(**late())], "- or fits"),
        ([ours(**late(status=RunStatus.INVALID))], "invalid"),
    ],
)
def test_the_answer_on_a_capacity(records: list[Record], answer: str) -> None:
    assert table(FIT_SLOT, *records)[1][4] == answer


def test_a_wrong_plan_has_no_cost() -> None:
    _, row, total = table(FIT_SLOT, ours(), ours(**late(status=RunStatus.INVALID)), theirs())
    assert row[5:] == ["invalid", "-", "**1,000**", "1,000", "-"]
    assert total[5:7] == ["-", "-"]


@pytest.mark.parametrize(
    ("records", "answer"),
    [
        ([ours(LEAST, **PROVEN)] * 2, "10 proven"),
        ([ours(LEAST, peak=12), ours(LEAST, peak=13, lower_bound=9)], "[9, 13]"),
        ([ours(LEAST, peak=12), ours(LEAST, **PROVEN)], "[10, 12], 1 of 2 proven"),
        ([ours(LEAST, **late())], "[10, -]"),
        ([ours(LEAST), ours(LEAST, **late(status=RunStatus.INVALID))], "invalid"),
    ],
)
def test_the_answer_on_the_smallest_peak(records: list[Record], answer: str) -> None:
    assert table(PEAK_SLOT, *records)[1][2] == answer


def test_the_total_of_smallest_peaks_is_of_those_that_ours_proved() -> None:
    _, proven, open_, total = table(
        PEAK_SLOT,
        *(ours(LEAST, 1, **PROVEN), theirs(LEAST, 8, peak=11)),
        *(ours("b.12.csv", 7), theirs("b.12.csv", 9)),
    )
    assert proven[2:] == ["10 proven", "[10, 11]", "**1,000**", "1,000", "- (10 s)", "-", ">8.0x"]
    assert open_[2:] == ["[10, 12]", "[10, 12]", "- (10 s)", "-", "- (10 s)", "-", "-"]
    assert total == ["1 proven", "", "", "", "1,000", "1,000", ">8,000", ">8,000", ">8.0x"]


def test_who_was_not_asked_has_an_empty_place() -> None:
    _, first, second, total = table(FIT_SLOT, ours(), theirs(), ours("b.12.csv:capacity=12"))
    assert first[7:] == ["**1,000**", "1,000", "1.0x"]
    assert second[7:] == total[7:] == ["-", "-", "-"]


def test_variants_and_searches_without_a_rule_stand_elsewhere() -> None:
    variant = ours(f"{FITS}:variation=mirrored")
    without = ours(parameters={"split": False, "memory": True})
    assert len(table(FIT_SLOT, ours(), variant, without)) == 3
    assert table(FIT_SLOT, variant, without) == []
