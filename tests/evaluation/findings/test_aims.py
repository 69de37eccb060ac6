"""An aim is reached with a proof of every instance, in time, in every run."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.report.slots import PageMaterial, fill
from evaluation.study.record import Record
from planners.errors import GaplessError
from tests.evaluation.study.made_up_records import record

AIM = {"says": "it proven", "planner": "auto", "instances": ["a", "b*"], "seconds": 0.5}


def lines_of(*records: Record, **changes: Any) -> list[list[str]]:
    material = PageMaterial("proofs", records, {"aims": [{**AIM, **changes}]})
    text = fill("{aims}", material, "proofs.md")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]


@pytest.mark.parametrize(
    ("peak", "seconds", "reached"),
    [(10, 0.4, "yes"), (10, 0.5, "**no**"), (11, 0.4, "**no**"), (10, None, "**no**")],
)
def test_an_aim_is_reached_with_a_proof_in_time(
    peak: int, seconds: float | None, reached: str
) -> None:
    [line] = lines_of(record("a", "auto", peak, processor_seconds=seconds))
    assert line[-1] == reached


def test_the_worst_run_of_all_instances_counts() -> None:
    records = [
        record("a", "auto", 10, processor_seconds=0.1),
        record("a", "auto", 10, processor_seconds=0.3, seed=1),
        record("b.npz", "auto", 11, processor_seconds=0.2),
        record("c", "auto", 99, processor_seconds=9.0),
        record("a", "other", 99, processor_seconds=9.0),
    ]
    assert lines_of(*records) == [["it proven", "0.5", "1 of 2", "0.3", "**no**"]]


def test_an_aim_without_records_is_left_out() -> None:
    assert lines_of(record("c", "auto")) == []


def test_an_aim_that_lacks_a_field_is_named() -> None:
    with pytest.raises(GaplessError, match=r"\[\[page.aims\]\] needs instances, .*, found .*, why"):
        lines_of(record("a", "auto"), why="no")
