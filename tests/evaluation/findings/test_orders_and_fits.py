"""Every order and fit on the instances that a study names."""

from __future__ import annotations

import pytest

from evaluation.report.slots import PageMaterial, fill
from planners.errors import InstanceError
from tests.evaluation.claims.made_up_records import GB, record

RECORDS = [
    record("drawn:seed=0", "naive", 6 * GB),
    record("drawn:seed=0", "greedy-size-first", 3 * GB, seconds=0.25),
    record("drawn:seed=0", "many-objects-source-best", 2 * GB, proven=2 * GB, seconds=0.02),
    record("bert", "greedy-size-first", GB),
    record("other", "greedy-size-first", GB),
]


def lines_of(words: dict[str, object]) -> dict[str, list[str]]:
    text = fill("{orders-and-fits-table}", PageMaterial("made-up", RECORDS, words), "words")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {row[0]: row[1:] for row in rows if row}


def test_an_instance_is_a_column_under_its_heading() -> None:
    lines = lines_of({"orders-and-fits": {"bert": "bert", "mine": "drawn:seed=0", "no": "gone"}})
    assert lines[""] == ["bert", "mine"]
    assert lines["tensors"] == ["10", "10"]
    assert lines["naive sum / bound"] == ["-", "3.00x"]
    assert lines["best bound (GB)"] == ["1.0000", "2.0000"]
    assert lines["SO size, first fit"] == ["0 %", "50.0000% (250)"]
    assert lines["MO source, best fit"] == ["-", "0 % (20)"]
    assert len([name for name in lines if name.startswith(("SO ", "MO "))]) == 16


def test_a_study_that_names_none_has_no_table() -> None:
    assert lines_of({}) == {}


def test_what_is_no_table_of_names_is_an_error() -> None:
    with pytest.raises(InstanceError, match=r"page\.orders-and-fits: a table of instances"):
        lines_of({"orders-and-fits": ["bert"]})
