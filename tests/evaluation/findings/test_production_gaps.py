"""Planners beside the proven optimum: what the two tables of production planners show."""

from __future__ import annotations

import pytest

from evaluation.findings.production_gaps import Sides, above, instance_table, planner_table
from evaluation.findings.studied_instances import StudiedInstance, studied_instances
from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record, RunStatus
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

SIDES = Sides("greedy:order=given", "greedy:order=shuffled", "auto")


def greedy(instance: str, peak: int | None, order: str = "given", seed: int = 0) -> Record:
    return record(
        instance, "greedy", peak, parameters={"order": order}, seed=seed, family="lowered",
        run=f"{instance}/{order}/{seed}",
    )  # fmt: skip


def auto(instance: str) -> Record:
    return record(instance, "auto", 10, family="lowered", status=RunStatus.OPTIMAL)


# Greedy is 10 % above on a, twice the optimum on b, at the optimum on c, and has no plan on d.
RECORDS = [
    greedy("a", 11), greedy("a", 10, "shuffled", 1), greedy("a", 15, "shuffled", 2), auto("a"),
    greedy("b", 20), greedy("b", 20, "shuffled", 1), greedy("b", 30, "shuffled", 2), auto("b"),
    greedy("c", 10), greedy("c", 10, "shuffled", 1), greedy("c", 10, "shuffled", 2), auto("c"),
    greedy("d", None), auto("d"),
]  # fmt: skip


def instances() -> list[StudiedInstance]:
    return studied_instances(PageMaterial("made-up", RECORDS))


def test_a_line_an_instance_has_the_widest_gap_first() -> None:
    rows = [list(row.cells) for row in instance_table(instances(), SIDES).rows]
    assert rows == [
        ["b", "5", "20", "20", "30", "10", "10", "lifetime", "100.0 %", "100.0 %", "200.0 %"],
        ["a", "5", "11", "10", "15", "10", "10", "lifetime", "10.0 %", "0 %", "50.0 %"],
        ["c", "5", "10", "10", "10", "10", "10", "lifetime", "0 %", "0 %", "0 %"],
    ]


def test_a_line_a_planner_has_its_share_at_the_optimum() -> None:
    rows = planner_table(instances()).rows
    assert [bool(row.mark) for row in rows] == [True, False, False]
    assert [list(row.cells) for row in rows] == [
        ["auto", "4", "4", "4", "100 %", "0 %", "0 %", "-"],
        ["greedy:order=shuffled", "3", "3", "2", "67 %", "0 %", "100.0 %", "b"],
        ["greedy:order=given", "4", "3", "1", "33 %", "10.0 %", "100.0 %", "b"],
    ]


def test_a_planner_without_plans_stands_last() -> None:
    missing = record("a", "missing", None, family="lowered", status=RunStatus.UNSUPPORTED)
    rows = planner_table(studied_instances(PageMaterial("made-up", [missing, *RECORDS]))).rows
    assert list(rows[-1].cells) == ["missing", "1", "0", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("gap", "text"), [(None, "-"), (0.0, "0 %"), (0.0001, "<0.1 %"), (0.496, "49.6 %")]
)
def test_what_is_above_never_shows_as_nothing(gap: float | None, text: str) -> None:
    assert above(gap) == text


def test_the_sides_are_those_of_the_study() -> None:
    words = {"production": {"theirs": "greedy:order=given", "ours": "auto"}}
    with pytest.raises(GaplessError, match=r"needs `theirs`, `reordered` and `ours`"):
        fill("{production-by-instance}", PageMaterial("made-up", RECORDS, words), "a page")
    words["production"]["reordered"] = SIDES.reordered
    text = fill("{production-by-instance}", PageMaterial("made-up", RECORDS, words), "a page")
    assert "### lowered" in text
    assert "| b" in text
