"""A program explains its own memory, under planned memory and under PyTorch's allocator."""

from __future__ import annotations

import pytest

from gpu_runtime import PlannedMemory, explain_memory
from gpu_runtime._core import PlannedAllocator, SimulatedMemory
from gpu_runtime.explaining.running_program import moment_now
from gpu_runtime.explaining.stranded import Cause
from planners.errors import DeviceError
from tests.gpu_runtime.explaining.recorded_oom import Program
from tests.gpu_runtime.explaining.test_explanation import kept_apart
from tests.gpu_runtime.replaying.recordings import MIB


def test_planned_memory_tells_what_lives_what_is_stranded_and_what_pytorch_would_hold() -> None:
    memory, allocator = PlannedMemory(), PlannedAllocator(SimulatedMemory(2 * MIB, 1 << 30))
    with pytest.raises(DeviceError, match="not installed"):
        memory.explain()
    memory.attach(allocator)
    for _ in range(4):
        with memory.step():
            for block in [allocator.allocate(size * MIB) for size in (3, 5, 9)]:
                allocator.free(block)
        memory.wait_for_planning()
    allocator.allocate(5000)
    found, figures = memory.explain(), allocator.figures()
    assert (found.reserved, found.requested) == (figures.reserved_bytes, 5000)
    stranded = {one.cause: one.size for one in found.stranded}
    assert stranded[Cause.PLANNED] == 18 * MIB
    assert sum(stranded.values()) == found.reserved - found.allocated
    peaks = [one.reserved_peak for one in (found.replays.as_it_was, *found.replays.changes)]
    assert peaks == [figures.reserved_peak, figures.default_peak, figures.expandable_peak]
    screen = str(found)
    assert "this program, GPU 0: now" in screen
    assert "free, at places of a plan" in screen
    assert "PyTorch's allocator, expandable" in screen


def test_it_is_the_failure_only_if_nothing_was_requested_since() -> None:
    program = kept_apart(120 * MIB)
    block = max(program.live)
    program.free(block)
    snapshot, free = program.snapshot(), program.capacity - program.reserved()
    moment = moment_now(snapshot, 0, free, 128 * MIB)
    assert moment.failed is not None
    assert (moment.when, moment.room) == ("at the request that failed", 120 * MIB)
    program.allocate(MIB)
    moment = moment_now(program.snapshot(), 0, free - 2 * MIB, 128 * MIB)
    assert moment.failed is None
    assert (moment.when, moment.room, moment.outside) == ("now", 120 * MIB, 8 * MIB)


def test_without_history_the_segments_are_explained() -> None:
    program = Program(128 * MIB)
    program.allocate(40 * MIB)
    moment = moment_now({**program.snapshot(), "device_traces": [[]]}, 0, 80 * MIB, 128 * MIB)
    assert sum(segment.size for segment in moment.segments) == 40 * MIB
    assert "no history was recorded" in moment.notes[0]


@pytest.mark.torch
def test_a_program_without_cuda_is_refused() -> None:
    with pytest.raises(DeviceError, match="a program that uses CUDA is needed"):
        explain_memory()
