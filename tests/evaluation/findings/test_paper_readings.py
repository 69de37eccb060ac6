"""Readings of what the paper leaves open: the plugin that plans them, and their tables."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from evaluation.findings.recorded_problems import READING
from evaluation.study.study_file import FOLDER, find_study
from instances.synthetic import training_trace
from planners import Status, registry, run
from planners.errors import UnknownPlannerError
from planners.homosize.paper_variant import PaperVariant
from planners.registry import choose, choose_online
from tests.evaluation.findings.homosize_records import planned, slot_rows

PROBLEM = training_trace(200, seed=1)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Path:
    choose_online("*")
    monkeypatch.setattr(registry, "_planners", dict(registry._planners))
    path = FOLDER / "paper_readings.py"
    registry.load_plugin(path)
    return path


@pytest.mark.usefixtures("plugin")
def test_every_open_choice_is_a_parameter() -> None:
    [chosen] = choose(READING)
    assert dict(chosen.info.defaults) == {
        field.name: field.default for field in fields(PaperVariant)
    }
    with pytest.raises(UnknownPlannerError, match="transients"):
        choose(f"{READING}:transients=none")


@pytest.mark.usefixtures("plugin")
def test_every_reading_of_the_study_plans() -> None:
    readings = {
        planner
        for grid in find_study("homosize").grids
        for planner in grid.planners
        if planner.startswith(READING)
    }
    assert len(readings) == 26
    peaks = {}
    for reading in readings:
        result = run(PROBLEM, reading)
        assert result.status in (Status.OPTIMAL, Status.FEASIBLE)
        assert "fusions" in result.statistics
        peaks[reading] = result.peak
    for same in ("", ":fusion=false", ":phases=false"):
        published = run(PROBLEM, f"homosize:variant=paper{same}")
        assert peaks[f"{READING}{same}"] == published.peak
    assert len(set(peaks.values())) > 1


def test_readings_are_named_by_what_they_choose_otherwise() -> None:
    records = [
        planned("a.npz:iteration=last", 1000, planner=READING),
        planned("b.npz:iteration=last", 1250, planner=READING),
        planned("a.npz:iteration=last", 2000, planner=READING, fusion=False, order="size"),
        planned("a.npz:iteration=last", 4000, planner=READING, layers_too=True),
        planned("b.npz:iteration=last", None, planner=READING, layers_too=True),
        planned("a.npz:iteration=last", 1000),
    ]
    names = {"reading-names": {"layers_too=true": "the code"}}
    assert slot_rows("readings-table", *records, **names)[1:] == [
        ["**as chosen**", "90.000 %", "80.000 %", "b", "4"],
        ["fusion=false, order=size", "50.000 %", "50.000 %", "a", "2"],
        ["the code", "25.000 %", "25.000 %", "a", "2"],
    ]
    assert slot_rows("readings-by-recording-table", *records, **names) == [
        ["reading", "a", "b"],
        ["as chosen", "100 % (2)", "80.000 % (2)"],
        ["fusion=false, order=size", "50.000 % (2)", "-"],
        ["the code", "25.000 % (2)", "-"],
    ]
