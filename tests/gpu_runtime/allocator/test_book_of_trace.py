"""A plan that is made of a trace, without the program, serves the program's first step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpu_runtime.allocator.book_of_trace import log_of_trace
from instances.formats.recorded_trace import write_recorded_trace
from instances.traces.allocation_trace import AllocationTrace, Phase
from planners.errors import InstanceError
from tests.gpu_runtime.allocator.synthetic_training import Life, Program, Request, Training, served
from tests.gpu_runtime.allocator.training_programs import most_live, training_step

pytestmark = pytest.mark.core


def trace_of(programs: list[Program], weights: int = 3) -> AllocationTrace:
    """Return a trace whose iterations are programs in which all is freed, after some weights."""
    columns: list[tuple[int, int, int, int]] = []  # bytes, stream, event of request and free
    event = 0
    for _ in range(weights):
        columns.append((5000, 0, event, -1))
        event += 1
    marks = []
    for program in programs:
        marks.append(event)
        event += 1
        made: dict[int, tuple[int, int, int]] = {}
        for time in range(len(program) + 1):
            for index in [i for i in made if program[i].end == time]:
                columns.append((*made.pop(index), event))
                event += 1
            if time < len(program):
                made[time] = (program[time].size, program[time].stream, event)
                event += 1
    columns.sort(key=lambda column: column[2])
    size, stream, begin, end = np.array(columns).T
    end = np.where(end < 0, event, end)
    return AllocationTrace(
        event, size, begin, end, end, stream=stream, address=512 * np.arange(1, len(size) + 1),
        mark_event=marks, mark_phase=[Phase.FORWARD] * len(marks),
        mark_microbatch=[0] * len(marks), mark_iteration=range(len(marks)),
    )  # fmt: skip


def test_a_trace_serves_every_step_from_the_first_on(tmp_path: Path) -> None:
    first = [*training_step(256), Request(7777, 0, Life.WITHIN, 39)]
    program = training_step(256)
    first[-1] = Request(7777, 0, Life.WITHIN, len(first))
    path = tmp_path / "trace.npz"
    write_recorded_trace(trace_of([first, program, program]), path)
    training = Training("auto", plan=path)
    assert training.memory.report().arena_bytes == most_live(program)
    # Weights that are made now stay, and may not lie in the idle arena.
    for _ in range(20):
        training.kept.append(training.make(Request(30_000, 0, Life.KEPT)))
    assert served(training, first)
    for _ in range(3):
        assert served(training, program)
    training.free_all()


def test_streams_of_a_trace(tmp_path: Path) -> None:
    program = training_step(256, streams=True)
    path = tmp_path / "trace.npz"
    write_recorded_trace(trace_of([program] * 3), path)
    training = Training("auto", plan=path)
    others = {0: 0, 7: 1 << 50, 1 << 40: 3}
    program = [Request(r.size, others[r.stream], r.life, r.end) for r in program]
    for _ in range(3):
        assert served(training, program)


def test_too_few_iterations(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    write_recorded_trace(trace_of([training_step(256)]), path)
    with pytest.raises(
        InstanceError, match=r"at least 2 iterations are needed.* found 1; .*--steps"
    ):
        Training(plan=path)


def test_the_log_of_a_trace() -> None:
    program = [Request(1000, 0, Life.WITHIN, 1), Request(2000, 7, Life.WITHIN, 2)]
    rows = log_of_trace(trace_of([program] * 2, weights=1))
    assert [(what, number) for what, number, *_ in rows.tolist()] == [
        (0, 0), (2, -1), (0, 1), (1, 1), (0, 2), (1, 2), (3, -1),
        (2, -1), (0, 3), (1, 3), (0, 4), (1, 4), (3, -1),
    ]  # fmt: skip
    assert rows[rows[:, 0] == 0, 2].tolist() == [5000, 1000, 2000, 1000, 2000]
    assert rows[rows[:, 0] == 0, 3].tolist() == [0, 0, 7, 0, 7]
