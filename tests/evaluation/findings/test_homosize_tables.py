"""The tables of the study of spatio-temporal planning, on records with known answers."""

from __future__ import annotations

import pytest

from planners.errors import InstanceError
from tests.evaluation.findings.homosize_records import planned, slot_rows

LAST = "run.npz:iteration=last"
OUT = f"{LAST}:persistent=false"


def test_problems_of_one_recording_stand_together_with_every_planner() -> None:
    rows = slot_rows(
        "homosize-quality-table",
        planned(LAST, 1000, seconds=0.1),
        planned(LAST, 1250, seconds=0.3),
        planned(LAST, 1000, seconds=0.2),
        planned("bert", 1000),
        planned("bert", None, variant="paper"),
        planned(f"{OUT}:static=true", 1000),
        planned(OUT, 1000),
        planned(LAST, 2000, variant="paper", seconds=0.5),
        planned(LAST, 4000, variant="paper", fusion=False),
        planned(LAST, 1600, variant="paper", phases=False),
        planned(LAST, 1250, planner="greedy-size-first"),
        # Longer steps and families are of the table of growth.
        planned(f"{LAST}:microbatches=7", 1000),
        planned("training-trace:tensors=9", 1000, family="training-trace"),
    )[1:]
    assert [row[:3] for row in rows] == [
        ["run", "all", "in"],
        ["run", "all", "out"],
        ["run", "static part", "out"],
        ["bert", "all", "in"],
    ]
    assert rows[0][3:] == [
        "10", "1,000", "80.000 %", "80.000 %", "0.200 (0.300)", "layers (3)",
        "50.000 %", "0.500", "25.000 %", "0.250", "62.500 %", "0.250",
    ]  # fmt: skip
    assert rows[3][7:11] == ["0.250", "layers (3)", "unsupported", "-"]


def test_the_worst_run_is_compared_with_the_faster_planner_of_the_public_code() -> None:
    theirs = {"requests": 9, "seconds": [6.0, 3.0], "fragmentation": [0.5, 6.67]}
    rows = slot_rows(
        "public-code-table",
        planned(OUT, 1250, seconds=0.1),
        planned(OUT, 1250, seconds=0.03),
        planned(LAST, 1000, seconds=0.1),
        **{"public-code": {"run": theirs}},
    )
    assert rows[1:] == [
        ["run", "10", "0.065 (0.100)", "20.000 %", "9", "6 / 3", "0.5 % / 6.67 %", "30x"]
    ]


def test_pools_stand_beside_what_pytorch_reported() -> None:
    gib = 1 << 30
    rows = slot_rows(
        "pytorch-peaks-table",
        planned(LAST, 2 * gib),
        planned(LAST, None, variant="paper"),
        planned(OUT, gib),
        reported={"run": {"requested": 1.5, "allocated": 1.75, "reserved": 2.0}},
    )
    assert [row[:7] for row in rows[1:]] == [
        ["run", "1.500", "1.750", "2.000", "75.0 %", "-", "unsupported"]
    ]
    assert rows[1][7] == "2.000"


def test_growth_is_of_longer_steps_and_of_families() -> None:
    rows = slot_rows(
        "homosize-growth-table",
        planned("training-trace:tensors=20", 1000, family="training-trace", tensors=20),
        planned(f"{LAST}:microbatches=7", 1000, tensors=70, seconds=0.7, added=3 << 20),
        planned(f"{LAST}:microbatches=7", 1250, tensors=70, variant="paper", seconds=0.9),
        planned(LAST, 1000, tensors=10),
        planned(OUT, 1000),
        planned("other.npz:iteration=last", 1000),
    )[1:]
    assert [row[0] for row in rows] == [
        "run, 1 x its last microbatch", "run, 7 x its last microbatch",
        "training-trace:tensors=20",
    ]  # fmt: skip
    assert rows[1][1:] == ["70", "0.700", "10000.00", "3", "100 %", "0.900", "80.000 %"]
    assert rows[2][6:] == ["-", "-"]


AIMS = [
    {"says": "dense", "figure": "dense-efficiency", "at_least": 0.8},
    {"says": "static", "figure": "static-efficiency", "at_least": 0.9},
    {"says": "faster", "figure": "times-faster", "at_least": 100},
    {"says": "quick", "figure": "seconds", "most_requests": 10, "at_most": 0.25},
    {"says": "quick, large", "figure": "seconds", "most_requests": 99, "at_most": 0.25},
    {"says": "small", "figure": "megabytes", "at_most": 2},
    {"says": "greedy", "figure": "peak-to-greedy", "at_most": 1},
]


def test_an_aim_is_reached_in_the_worst_run_or_not() -> None:
    rows = slot_rows(
        "homosize-aims-table",
        planned("dense.npz:iteration=last", 1250),
        planned("dense.npz:iteration=last", 1000, planner="greedy-size-first"),
        planned(LAST, 5000),
        planned(f"{LAST}:static=true", 2000),
        planned(f"{LAST}:microbatches=7", 1000, tensors=70, seconds=0.7),
        aim=AIMS,
    )
    assert rows[1:] == [
        ["dense", "at least 80.000 %", "1", "80.000 %", "yes"],
        ["static", "at least 90.000 %", "1", "50.000 %", "no"],
        ["quick", "at most 0.25", "3", "0.25", "yes"],
        ["quick, large", "at most 0.25", "4", "0.7", "no"],
        ["small", "at most 2", "4", "1.05", "yes"],
        ["greedy", "at most 1", "1", "1.25", "no"],
    ]


def test_an_aim_about_nothing_that_is_known_is_refused() -> None:
    with pytest.raises(InstanceError, match="no figure is called 'second'"):
        slot_rows("homosize-aims-table", aim=[{"says": "?", "figure": "second"}])


def test_tables_without_records_are_empty() -> None:
    for name in ("quality", "growth", "aims"):
        assert slot_rows(f"homosize-{name}-table") == []
