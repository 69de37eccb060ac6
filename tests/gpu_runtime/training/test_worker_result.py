"""Results travel as one line; what is no result is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runtime.training.worker_result import (
    Failure,
    PeakFigures,
    WorkerResult,
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
    "result",
    [
        CHECK,
        planned_check(),
        replace(CHECK, plan=replace(PLAN, mismatches=MISMATCHES)),
        TIME,
        planned_time(),
        Failure("no", True),
        Failure("x", False, "y"),
    ],
    ids=lambda result: type(result).__name__,
)
def test_a_result_arrives_as_it_was_sent(result: WorkerResult) -> None:
    line = write_result(result)
    assert "\n" not in line
    assert read_result(line) == result


@pytest.mark.parametrize("line", ["", "hello", "[]", "{}", '{"kind": "other"}', "3"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_result(line)


def test_efficiency_is_allocated_of_reserved() -> None:
    assert PeakFigures(1, 3, 4).efficiency == 0.75
    assert PeakFigures(0, 0, 0).efficiency == 0
