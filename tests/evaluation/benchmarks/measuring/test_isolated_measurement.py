"""A call in a fresh process: what is measured, what is not, and how it fails. Nothing is timed."""

from __future__ import annotations

import os
from functools import partial

import pytest

from evaluation.benchmarks.measuring.isolated_measurement import MeasuredCall, run_isolated
from planners.errors import GaplessError, InstanceError

MIB = 1 << 20
# Room for what an interpreter takes on the side.
SLACK = 16 * MIB


def nothing() -> None:
    return None


def keep(count: int) -> bytes:
    return b"x" * count


def take_and_give_back(count: int) -> None:
    keep(count)


def keep_from(_state: object, count: int) -> bytes:
    return keep(count)


def length(_state: object, value: bytes) -> int:
    return len(value)


def both(state: object, value: object) -> tuple[object, object]:
    return state, value


def raise_instance_error(_state: object) -> None:
    raise InstanceError("field size: wrong")


def die(_state: object) -> None:
    os._exit(3)


def process_and_cores(_state: object) -> tuple[int, set[int]]:
    return os.getpid(), os.sched_getaffinity(0)


def test_the_answer_is_made_of_state_and_value() -> None:
    run = run_isolated(MeasuredCall(partial(keep, 2), len, both))
    assert run.answer == (b"xx", 2)
    assert run.cpu_seconds >= 0
    assert run.added_bytes < SLACK


def test_what_the_call_takes_is_counted() -> None:
    run = run_isolated(MeasuredCall(nothing, partial(keep_from, count=64 * MIB), length))
    assert run.answer == 64 * MIB
    assert 64 * MIB <= run.added_bytes < 64 * MIB + SLACK


def test_what_was_there_before_is_not_counted() -> None:
    run = run_isolated(MeasuredCall(partial(keep, 64 * MIB), len, both))
    assert run.added_bytes < SLACK


def test_an_earlier_peak_is_not_counted() -> None:
    run = run_isolated(
        MeasuredCall(
            partial(take_and_give_back, 128 * MIB), partial(keep_from, count=64 * MIB), length
        )
    )
    assert 64 * MIB <= run.added_bytes < 64 * MIB + SLACK


def test_each_child_is_a_process_of_its_own_on_the_same_cores() -> None:
    runs = [run_isolated(MeasuredCall(nothing, process_and_cores, both)) for _ in range(2)]
    processes = {run.answer[1][0] for run in runs}
    assert len(processes | {os.getpid()}) == 3
    assert all(run.answer[1][1] == os.sched_getaffinity(0) for run in runs)


def test_an_error_of_the_job_is_raised_here() -> None:
    with pytest.raises(InstanceError, match="field size: wrong"):
        run_isolated(MeasuredCall(nothing, raise_instance_error, both))


def test_a_child_that_dies_is_one_line() -> None:
    with pytest.raises(GaplessError, match="died before it answered"):
        run_isolated(MeasuredCall(nothing, die, both))
