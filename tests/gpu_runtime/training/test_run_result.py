"""Results travel as one line; what is no result is refused; ranks are taken together."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from gpu_runtime.training.run_result import (
    Answer,
    DeviceCounts,
    Failure,
    PeakFigures,
    RunResult,
    of_all_ranks,
    read_answer,
    write_answer,
)
from gpu_runtime.training.stream_times import StreamTimes
from tests.gpu_runtime.training.run_results import CHECK, MISMATCHES, PLAN, TIME, planned_check

STREAMS = (StreamTimes("compute", 1.0, 0.0),)


@pytest.mark.parametrize(
    "answer",
    [
        CHECK,
        replace(planned_check(), plan=changed(PLAN, mismatches=MISMATCHES), streams=STREAMS),
        TIME,
        Failure("no", True),
        Failure("x", False, "y"),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_an_answer_arrives_as_it_was_sent(answer: Answer) -> None:
    line = write_answer(answer)
    assert "\n" not in line
    assert read_answer(line) == answer


@pytest.mark.parametrize("line", ["", "hello", "[]", "{}", '{"type": "other"}', "3"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_answer(line)


def test_efficiency_is_allocated_of_reserved() -> None:
    assert PeakFigures(1, 3, 4).efficiency == 0.75
    assert PeakFigures(0, 0, 0).efficiency == 0


def test_without_planned_steps_all_is_fallback() -> None:
    served = changed(PLAN, planned_requests=70, escaping_requests=5, unexpected_requests=25)
    assert replace(TIME, plan=served).fallback_share == 0.25
    assert replace(TIME, plan=changed(served, planned_steps=0)).fallback_share == 1.0
    assert replace(TIME, plan=changed(PLAN, planned_requests=0)).fallback_share == 1.0
    assert TIME.fallback_share is None


def test_an_answer_is_the_worst_of_all_ranks_with_all_their_bits() -> None:
    half = changed(PLAN, planned_requests=1, unexpected_requests=1)
    first = RunResult(
        step_seconds=((1.0, 4.0), (5.0, 5.0)), peaks=PeakFigures(1, 2, 5), whole_run_reserved=9,
        counts=DeviceCounts(3, 2), plan=PLAN, losses=(("a",),), parameters={"w": "x"},
        undetermined=("put",), streams=STREAMS, environment={"t": "1"},
        allocator_seconds=(0.1, 0.4),
    )  # fmt: skip
    second = RunResult(
        step_seconds=((3.0, 2.0), (4.0, 6.0)), peaks=PeakFigures(1, 3, 4),
        counts=DeviceCounts(4, 0), plan=half, losses=(("b",),), parameters={"w": "y"},
        undetermined=("add", "put"), allocator_seconds=(0.3, 0.2),
    )  # fmt: skip
    assert of_all_ranks([first, second]) == replace(
        first, step_seconds=((3.0, 4.0), (5.0, 6.0)), plan=half, losses=(("a", "b"),),
        parameters={"w of rank 0": "x", "w of rank 1": "y"}, undetermined=("add", "put"),
        allocator_seconds=(0.3, 0.4), by_rank=(first, second),
    )  # fmt: skip
    # Reserved bytes and PyTorch's beside them are of one process.
    other = changed(PLAN, reserved_bytes=1)
    assert of_all_ranks([replace(second, plan=other), first]).plan == PLAN
    assert of_all_ranks([first]) == first
    died = Failure("the process died")
    assert of_all_ranks([first, died]) == died
