"""How near planners come to a proof: worst seeds, best bounds, and who sat out."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.report.slots import PageMaterial, fill
from evaluation.study.gaps import ContradictionError
from evaluation.study.record import Record, RunStatus
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

WORDS: dict[str, Any] = {
    "proofs": {"files": {"auto": "auto", "peer": "omnimalloc:allocator=omni"}},
    "searches": {"planners": ["auto"], "above": "greedy"},
}


def lines_of(slot: str, *records: Record, **words: Any) -> list[list[str]]:
    material = PageMaterial("proofs", records, {**WORDS, **words})
    text = fill(f"{{{slot}}}", material, "proofs.md")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


def auto(peak: int | None, seed: int, seconds: float = 1.0, **changes: Any) -> Record:
    return record("a", "auto", peak, seed=seed, processor_seconds=seconds, **changes)


def peer(peak: int | None, seconds: float = 4.0, **changes: Any) -> Record:
    return record(
        "a", "omnimalloc", peak, parameters={"allocator": "omni"},
        statistics={"placing_seconds": seconds}, **changes,
    )  # fmt: skip


def test_a_gap_is_that_of_the_worst_seed_to_the_best_bound_of_all() -> None:
    records = [
        auto(12, 0, statistics={"found_by": "first"}),
        auto(18, 1, 3.0, statistics={"found_by": "last"}),
        peer(12, lower_bound=12, certificate="a search"),
    ]
    assert lines_of("file-gaps", *records) == [
        ["a", "5", "12 (a search)", "last", "50.000 %", "0 %"],
        ["proven best", "", "", "", "0 of 1", "1 of 1"],
    ]
    assert lines_of("file-times", *records) == [["a", "2.000 (3.000)", "4.000 (4.000)", "2.0x"]]


def test_who_fails_has_no_gap() -> None:
    records = [auto(10, 0), auto(None, 1, status=RunStatus.INVALID), peer(10)]
    first, proven = lines_of("file-gaps", *records)
    assert first[4:] == ["invalid", "0 %"]
    assert proven[4:] == ["0 of 1", "1 of 1"]


def test_who_sits_out_has_dashes() -> None:
    records = [record("b", "other"), record("b", "auto", 10), peer(10)]
    files = {"auto": "auto", "peer": "omnimalloc:allocator=omni", "other": "other"}
    found = lines_of("file-gaps", *records, proofs={"files": files})
    assert [line[4:] for line in found] == [
        ["0 %", "-", "20.000 %"], ["-", "0 %", "-"], ["1 of 1", "1 of 1", "0 of 1"],
    ]  # fmt: skip
    times = lines_of("file-times", *records, proofs={"files": files})
    assert times[0][2:4] == ["-", "-"]
    assert times[1][1:] == ["-", "4.000 (4.000)", "-", "-", "-"]


def test_other_parameters_are_another_planner() -> None:
    other = record("b", "omnimalloc", parameters={"allocator": "greedy"})
    assert lines_of("file-gaps", record("b", "auto"), other) == []


def test_a_search_above_a_greedy_plan_makes_no_page() -> None:
    records = [auto(11, 0), auto(12, 1), peer(10)]
    assert lines_of("file-gaps", *records, record("a", "greedy", 12))
    with pytest.raises(ContradictionError, match=r"instance a: .* a peak of 12 of auto, .* has 11"):
        lines_of("file-gaps", *records, record("a", "greedy", 11))


def test_a_table_needs_planners() -> None:
    with pytest.raises(GaplessError, match=r"\[page.proofs.graphs\] needs planners"):
        lines_of("graph-gaps", peer(10))
