"""Answers travel as one line; what is no answer is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runtime.training.worker_result import (
    Answer,
    Failure,
    PeakFigures,
    read_result,
    write_result,
)
from tests.gpu_runtime.training.worker_results import (
    CHECK,
    MISMATCHES,
    PLAN,
    TIME,
    planned_check,
    planned_time,
)


@pytest.mark.parametrize(
    "answer",
    [
        CHECK,
        planned_check(),
        replace(CHECK, plan=replace(PLAN, mismatches=MISMATCHES)),
        TIME,
        planned_time(),
        Failure("no", True),
        Failure("x", False, "y"),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_an_answer_arrives_as_it_was_sent(answer: Answer) -> None:
    line = write_result(answer)
    assert "\n" not in line
    assert read_result(line) == answer


@pytest.mark.parametrize("line", ["", "hello", "[]", "{}", '{"kind": "other"}', "3"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_result(line)


def test_efficiency_is_allocated_of_reserved() -> None:
    assert PeakFigures(1, 3, 4).efficiency == 0.75
    assert PeakFigures(0, 0, 0).efficiency == 0
