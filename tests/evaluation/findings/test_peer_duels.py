"""A planner against that of another package: medians, the least ratio, and whose peak is lower."""

from __future__ import annotations

import pytest

from evaluation.findings.peer_duels import duels_of, memory_ratios, time_ratios
from evaluation.report.cases import cases_of
from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

MIB = 1 << 20
OURS, THEIRS = "greedy-size-first", "omnimalloc:allocator=greedy_by_size"
WORDS = {"duel": {"ours": OURS, "theirs": THEIRS}}


def runs(
    instance: str, ours: int | None, theirs: int | None, seconds: float = 1.0, memory: int = MIB
) -> list[Record]:
    """Return three runs of each: ours take 1, 2 and 3 times as long, theirs nine times that."""
    records = []
    for repetition in (1, 2, 3):
        records.append(
            record(
                instance, OURS, ours, run=f"{instance}/ours/{repetition}",
                processor_seconds=repetition * seconds, peak_resident_bytes=memory,
            )
        )  # fmt: skip
        records.append(
            record(
                instance, "omnimalloc", theirs, run=f"{instance}/theirs/{repetition}",
                parameters={"allocator": "greedy_by_size"}, processor_seconds=1e3,
                peak_resident_bytes=1 << 40,
                statistics={"placing_seconds": 9 * repetition * seconds, "placing_bytes": 16 * MIB},
            )
        )  # fmt: skip
    return records


def page_of(records: list[Record]) -> list[list[str]]:
    text = fill("{peer-duels}", PageMaterial("peers", records, WORDS), "peers.md")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]


def test_the_least_ratio_holds_the_slowest_against_the_fastest() -> None:
    duels = duels_of(cases_of(runs("a", 12, 12)), OURS, THEIRS)
    assert time_ratios(duels) == (9.0, 3.0)
    assert memory_ratios(duels) == (16.0, 16.0)


def test_what_adds_no_page_counts_as_one() -> None:
    duels = duels_of(cases_of(runs("a", 12, 12, memory=0)), OURS, THEIRS)
    assert memory_ratios(duels) == (16 * MIB / 4096, 16 * MIB / 4096)


def test_seeds_of_one_instance_share_a_line() -> None:
    records = [
        *runs("t:seed=0", 12, 13), *runs("t:seed=1", 12, 12, seconds=0.1),
        *runs("t:seed=2", 14, 12, seconds=0.2), *runs("mine.csv", 12, 12),
    ]  # fmt: skip
    _, _, seeds, alone = page_of(records)
    assert seeds == [
        "t", "3", "5", "400", "3,000", "3,600", "27,000", "9.0x", "3.0x", "1", "16", "16.0x",
        "16.0x", "lower on 1, equal on 1, higher on 1",
    ]  # fmt: skip
    assert (alone[0], alone[1], alone[-1]) == ("mine.csv", "1", "equal")


@pytest.mark.parametrize(("ours", "theirs", "word"), [(None, 12, "missing"), (12, None, "alone")])
def test_a_missing_plan_has_no_peak(ours: int | None, theirs: int | None, word: str) -> None:
    assert page_of(runs("a", ours, theirs))[2][-1] == word


def test_what_was_not_timed_has_no_ratio() -> None:
    line = page_of([record("a", OURS, timed=False), record(
        "a", "omnimalloc", timed=False, parameters={"allocator": "greedy_by_size"}
    )])[2]  # fmt: skip
    assert line[3:13] == ["-"] * 10


def test_a_duel_names_both() -> None:
    material = PageMaterial("peers", runs("a", 12, 12), {"duel": {"ours": OURS}})
    with pytest.raises(GaplessError, match=r"\[page.duel\] needs `ours` and `theirs`, found ours"):
        fill("{peer-duels}", material, "peers.md")
