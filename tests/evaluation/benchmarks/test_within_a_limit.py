"""The benchmark of steps within limits, on a small model and the CPU."""

from __future__ import annotations

import json

import pytest

from evaluation.benchmarks.limited_steps import (
    AS_IT_IS,
    EVERY_BLOCK,
    LimitedModel,
    LimitedRun,
    MeasuredStep,
    run_of_record,
)
from evaluation.benchmarks.within_a_limit import WORDS, study_limits, within_a_limit_page
from evaluation.report.slots import PLACE
from tests.repository import ROOT

GIB = 1 << 30


def hand_made(*, is_planned: bool) -> LimitedRun:
    decision = {"ops": ["mm", "add"], "unit": [3, -1], "peak": GIB, "extra_seconds": 0.25}
    return LimitedRun(
        "bert-base", {"batch": 3}, "a GPU", is_planned,
        [
            MeasuredStep(AS_IT_IS, predicted_bytes=2 * GIB, peak_bytes=2 * GIB, seconds=1.0,
                         same_bits=True),
            MeasuredStep("within 60%", GIB, GIB, 0.25, 0.5, decision, GIB + GIB // 100, 3 * GIB,
                         1.625, same_bits=False),
            MeasuredStep("within 40%", refused="too small"),
            MeasuredStep(EVERY_BLOCK, peak_bytes=GIB, seconds=1.5, same_bits=True),
        ],
        allowed_bytes=5 * GIB,
        within_allowed={AS_IT_IS: "out of memory", "within 60%": "ran"},
    )  # fmt: skip


def cells(page: str, *first: str) -> list[str]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()]
    return next(row[len(first) :] for row in rows if tuple(row[: len(first)]) == first)


def test_page_shows_predicted_beside_measured() -> None:
    page = within_a_limit_page([hand_made(is_planned=False)], "the command")
    assert cells(page, "bert-base", "within 60%") == [
        "1", "1.000", "1.010", "+1.00%", "3.000", "1,625", "+625.0", "+500.0", "+250.0",
        "**other**", "",
    ]  # fmt: skip
    assert cells(page, "bert-base", AS_IT_IS)[:4] == ["", "2.000", "2.000", "+0.00%"]
    assert cells(page, "bert-base", EVERY_BLOCK)[-2:] == ["same", ""]
    assert cells(page, "bert-base", "5.000", AS_IT_IS) == ["out of memory"]
    assert "- bert-base within 40%: too small" in page


def test_page_says_what_was_not_run() -> None:
    page = within_a_limit_page([hand_made(is_planned=False)], "the command")
    assert page.count("needs a GPU") == 1
    page = within_a_limit_page(
        [hand_made(is_planned=False), hand_made(is_planned=True)], "the command"
    )
    assert "needs a GPU" not in page


def test_a_record_holds_all_of_a_run() -> None:
    run = hand_made(is_planned=True)
    assert run_of_record(json.loads(json.dumps(run, default=vars))) == run


@pytest.mark.torch
def test_predictions_of_a_small_model_hold() -> None:
    model = LimitedModel("vit-base", {}, {"batch": 32, "image": 64, "layers": 1})
    (run,) = study_limits([model], "cpu", repetitions=1, seconds=1)
    ran = [step for step in run.steps if not step.refused]
    assert [ran[0].way, ran[-1].way] == [AS_IT_IS, EVERY_BLOCK]
    assert all(step.same_bits for step in ran)
    for step in ran[:-1]:
        assert step.peak_bytes == pytest.approx(step.predicted_bytes, rel=0.01)
    assert all(step.peak_bytes <= step.limit for step in ran if step.limit)
    assert any(step.limit for step in ran)


def test_the_committed_page_says_what_the_words_say() -> None:
    page = " ".join((ROOT / "docs/benchmarks/within-a-limit.md").read_text().split())
    for fixed in PLACE.split(WORDS.read_text())[::2]:
        assert " ".join(fixed.split()) in page, fixed
