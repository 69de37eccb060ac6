"""Steps within a limit, on a small model and the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.study.limited_runs import LimitedRuns
from evaluation.study.record import RunStatus
from planners.errors import GaplessError
from tests.evaluation.study.made_runs import made_records

SMALL = "vit-base --batch 32 --image 64 --layers 1"


@pytest.mark.torch
def test_predictions_of_a_small_model_hold(tmp_path: Path) -> None:
    ways = '"as-it-is", "within:limit=0.6", "every-block", "within:limit=0.01"'
    plain, within, every_block, impossible = made_records(
        tmp_path, f'seconds = 600\nmemory = "128TiB"\nbudget_seconds = 1\nlimited = [{ways}]',
        f'trainings = ["{SMALL}"]',
    )  # fmt: skip
    assert within.statistics["repeated"] > 0
    assert within.peak <= within.statistics["limit"] < plain.peak
    for record in (plain, within):
        assert record.peak == pytest.approx(record.statistics["predicted"], rel=0.01)
    assert plain.statistics["bits"] == within.statistics["bits"] == every_block.statistics["bits"]
    assert impossible.status is RunStatus.NO_PLAN_FOUND
    assert "too small for local-search" in impossible.reason


def test_a_way_has_its_limit_and_its_memory_as_parameters() -> None:
    [named] = LimitedRuns().choose("within:limit=0.8:memory=planned")
    assert (named.planner, named.parameters) == ("within", {"limit": 0.8, "memory": "planned"})
    [named] = LimitedRuns().choose("every-block")
    assert (named.planner, named.parameters) == ("every-block", {"memory": "pytorch"})


@pytest.mark.parametrize("text", ["within", "within:limit=0", "within:limit=1", "as-it-is:x=1"])
def test_refuses_other_ways(text: str) -> None:
    with pytest.raises(GaplessError, match=f"field limited: as-it-is, .* found '{text}'"):
        LimitedRuns().choose(text)
