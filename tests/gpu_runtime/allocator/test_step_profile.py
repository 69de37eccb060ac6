"""What a log says of a step, against a slow and obvious reading of the same log."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime._core import LogKind
from gpu_runtime.allocator.step_profile import NEVER, StepLog, StepProfile, StreamProfile
from tests.gpu_runtime.allocator.synthetic_training import (
    STREAMS,
    Life,
    Program,
    Request,
    Training,
    random_program,
    served,
)

Row = tuple[int, int, int, int]
BEGIN: Row = (LogKind.STEP_BEGINS, -1, 0, 0)
END: Row = (LogKind.STEP_ENDS, -1, 0, 0)


def made(request: int, size: int, stream: int = 0) -> Row:
    return (LogKind.REQUEST, request, size, stream)


def freed(request: int) -> Row:
    return (LogKind.FREE, request, 0, 0)


def array(rows: Iterable[Row]) -> NDArray[np.int64]:
    return np.array(list(rows), dtype=np.int64).reshape(-1, 4)


def log_of(steps: list[list[Row]], *, completed: list[bool] | None = None) -> StepLog:
    """Return the log of steps; in each list, what stands behind END happens between steps."""
    log = StepLog()
    for rows, whole in zip(steps, completed or [True] * len(steps), strict=True):
        log.add(array(rows))
        log.end_step(completed=whole)
    return log


def ends(profile: StepProfile | None) -> dict[int, list[int]]:
    assert profile is not None
    return {stream.stream: stream.freed.tolist() for stream in profile}


def slow_profile(rows: list[Row], step: int) -> dict[int, tuple[list[int], list[int]]]:
    """Sizes and ends of a step's requests by stream, one row after the other.

    The clock of a stream counts its requests from the step's beginning, the beginning of the next
    step as one; nothing is seen after the end of that.
    """
    current, over = -1, False
    clock: dict[int, int] = {}
    found: dict[int, tuple[list[int], list[int]]] = {}
    whose: dict[int, tuple[int, int]] = {}
    for kind, request, size, stream in rows:
        if kind == LogKind.STEP_BEGINS:
            current += 1
            over = False
            if current == step + 1:
                clock = {stream: time + 1 for stream, time in clock.items()}
        elif kind == LogKind.STEP_ENDS:
            over = True
            if current == step + 1:
                break
        elif kind == LogKind.REQUEST and step <= current <= step + 1:
            assert not over
            clock[stream] = clock.get(stream, 0) + 1
            if current == step:
                sizes, freed = found.setdefault(stream, ([], []))
                whose[request] = (stream, len(sizes))
                sizes.append(size)
                freed.append(NEVER)
        elif kind == LogKind.FREE and request in whose:
            its_stream, index = whose[request]
            found[its_stream][1][index] = clock[its_stream]
    return found


def slow_merge(rows: list[Row], last: int) -> dict[int, list[int]] | None:
    """Ends of two like steps, the later of each; what only one step can tell is taken from it."""
    one, two = slow_profile(rows, last - 1), slow_profile(rows, last)
    if not two or {s: v[0] for s, v in one.items()} != {s: v[0] for s, v in two.items()}:
        return None
    merged: dict[int, list[int]] = {}
    for stream, (sizes, freed) in sorted(two.items()):
        merged[stream] = []
        for before, now in zip(one[stream][1], freed, strict=True):
            ended_within = before <= len(sizes)
            if now == NEVER:
                # In use at the end of the last step, and nobody knows for how long.
                merged[stream].append(NEVER if ended_within else before)
            else:
                merged[stream].append(max(before, now))
    return merged


def random_rows(rng: Random, steps: int, program: Program) -> tuple[list[list[Row]], list[Row]]:
    """Return steps that make the same requests, and free them whenever they like."""
    in_use: list[int] = []
    number = 0
    logged: list[list[Row]] = []
    before: list[Row] = []

    def free_some(chance: float) -> list[Row]:
        gone = [request for request in in_use if rng.random() < chance]
        rng.shuffle(gone)
        for request in gone:
            in_use.remove(request)
        return [freed(request) for request in gone]

    for _ in range(steps):
        rows = [*before, BEGIN, *free_some(0.2)]
        for request in program:
            rows.append(made(number, request.size, request.stream))
            in_use.append(number)
            number += 1
            rows += free_some(rng.choice([0.0, 0.1, 0.5]))
        rows.append(END)
        logged.append(rows)
        before = free_some(0.3)
    return logged, before


@pytest.mark.parametrize("seed", range(150))
def test_ends_by_a_slow_reading(seed: int) -> None:
    rng = Random(seed)
    program = random_program(rng, rng.randint(1, 25), rng.randint(1, 3))
    steps, behind = random_rows(rng, rng.randint(2, 4), program)
    log = log_of(steps)
    log.add(array(behind))
    rows = [row for step in steps for row in step] + behind
    last = len(steps) - 1
    assert ends(log.repeated_step()) == slow_merge(rows, last)
    whole = slow_profile(rows, last - 1)
    profile = log.last_completed_step()
    assert profile is not None
    assert [stream.stream for stream in profile] == sorted(whole)
    for stream in profile:
        assert (stream.size.tolist(), stream.freed.tolist()) == whole[stream.stream]
    gone = {request for kind, request, _, _ in rows if kind == LogKind.FREE}
    left = [size for kind, request, size, _ in steps[-1]
            if kind == LogKind.REQUEST and request not in gone]  # fmt: skip
    assert log.sizes_in_use().tolist() == left


def test_times_of_one_stream() -> None:
    first = [BEGIN, made(0, 5), made(1, 6), freed(0), made(2, 7), END, freed(2)]
    second = [BEGIN, made(3, 5), freed(1), made(4, 6), freed(3), made(5, 7), END, freed(5)]
    profile = log_of([first, second]).repeated_step()
    assert profile is not None
    (stream,) = profile
    assert stream.freed.tolist() == [2, 3 + 1 + 1, 3]
    assert stream.request_count == 3
    assert stream.freed_in_step.tolist() == [True, False, True]
    assert stream.freed_in_next.tolist() == [-1, 1, -1]


def test_each_stream_has_a_time_of_its_own() -> None:
    step = [BEGIN, made(0, 5, 3), made(1, 6, 4), made(2, 6, 4), freed(0), made(3, 5, 3), END]
    later = [(k, r + 4 if r >= 0 else r, size, s) for k, r, size, s in step]
    profile = log_of([step, later]).repeated_step()
    assert ends(profile) == {3: [1, NEVER], 4: [NEVER, NEVER]}


def test_steps_that_differ_are_not_alike() -> None:
    step = [BEGIN, made(0, 5), made(1, 6), END]
    for other in (
        [BEGIN, made(2, 5), END],
        [BEGIN, made(2, 5), made(3, 7), END],
        [BEGIN, made(2, 6), made(3, 5), END],
        [BEGIN, made(2, 5), made(3, 6, 9), END],
        [BEGIN, made(2, 5), made(3, 6), made(4, 6, 9), END],
        [BEGIN, made(2, 5, 9), made(3, 6, 9), END],
        [BEGIN, END],
    ):
        assert log_of([step, other]).repeated_step() is None
    assert log_of([step]).repeated_step() is None
    assert StepLog().repeated_step() is None
    assert log_of([[BEGIN, END], [BEGIN, END]]).repeated_step() is None


@pytest.mark.parametrize("broken", [0, 1])
def test_a_step_that_did_not_complete_is_not_used(broken: int) -> None:
    steps = [[BEGIN, made(k, 5), freed(k), END] for k in range(2)]
    completed = [k != broken for k in range(2)]
    log = log_of(steps, completed=completed)
    assert log.repeated_step() is None
    assert (log.last_completed_step() is None) == (broken == 0)
    for k in range(2, 4):
        log.add(array([BEGIN, made(k, 5), freed(k), END]))
        log.end_step(completed=True)
    assert ends(log.repeated_step()) == {0: [1]}


def test_the_last_completed_step_asked_for_something() -> None:
    steps = [[BEGIN, made(0, 5), freed(0), END], [BEGIN, END], [BEGIN, END]]
    assert ends(log_of(steps).last_completed_step()) == {0: [1]}
    assert log_of(steps[1:]).last_completed_step() is None
    assert log_of(steps[:1]).last_completed_step() is None


def test_columns_of_a_profile_are_of_64_bits() -> None:
    stream = 0x7F00_1234_5678_9000
    steps = [[BEGIN, made(k, 1 << 40, stream), END] for k in range(2)]
    (profile,) = log_of(steps).repeated_step() or ()
    assert profile.stream == stream
    assert profile.size.dtype == profile.freed.dtype == np.int64


def jitter(rng: Random, program: Program) -> Program:
    """The same requests; each may be freed earlier than in the program, never later."""
    return [
        Request(r.size, r.stream, r.life, rng.randint(min(k + 1, r.end), r.end))
        if r.life is Life.WITHIN
        else r
        for k, r in enumerate(program)
    ]


@pytest.mark.core
@pytest.mark.parametrize("seed", range(20))
def test_the_later_of_two_ends_serves_both_steps(seed: int) -> None:
    rng = Random(seed)
    program = [
        Request(rng.randint(1, 9000), STREAMS[0], Life.WITHIN, rng.randint(k + 1, 50))
        for k in range(50)
    ]
    one, other = jitter(rng, program), jitter(rng, program)
    training = Training()
    training.step(one)
    training.step(other)
    for _ in range(3):
        assert served(training, one)
        assert served(training, other)
    training.check_account()


@pytest.mark.core
@pytest.mark.parametrize("seed", range(20))
def test_where_no_two_steps_are_alike_the_last_but_one_is_planned(seed: int) -> None:
    rng = Random(seed)
    training = Training(max_profiled_steps=4)
    programs = [random_program(rng, 30 + 5 * k, rng.randint(1, 3), kept=0.02) for k in range(4)]
    for program in programs:
        training.step(program)
        assert training.memory.report().status == "profiling"
    training.let_go()
    assert served(training, programs[2])
    training.let_go()
    assert served(training, programs[2])
    training.step(programs[3])
    training.check_account()
    training.free_all()


def test_a_profile_says_when_nothing_was_freed() -> None:
    profile = StreamProfile(0, np.array([1, 2]), np.array([NEVER, 2]))
    assert profile.freed_in_step.tolist() == [False, True]
    assert profile.freed_in_next.tolist() == [-1, -1]
