"""What is written down while steps are profiled."""

from __future__ import annotations

import pytest

from gpu_runtime._core import LogKind, PlannedAllocator, SimulatedMemory, StepMode
from tests.gpu_runtime.core.small_plans import stream_plan

pytestmark = pytest.mark.core

PAGE = 4096


@pytest.fixture
def allocator() -> PlannedAllocator:
    """Return an allocator outside of a step."""
    return PlannedAllocator(SimulatedMemory(PAGE, 64 * PAGE))


def kinds(allocator: PlannedAllocator) -> list[LogKind]:
    """Take the log, and return the kinds of its rows."""
    return [LogKind(kind) for kind, *_ in allocator.take_log().tolist()]


def test_a_free_is_of_the_last_block_at_its_address(allocator: PlannedAllocator) -> None:
    allocator.begin_step(StepMode.PROFILED)
    block = allocator.allocate(1000)
    allocator.free(block)
    allocator.end_step()
    # Outside of the step nothing is profiled, at the same address neither.
    assert allocator.allocate(1000) == block
    allocator.free(block)
    assert kinds(allocator) == [
        LogKind.STEP_BEGINS,
        LogKind.REQUEST,
        LogKind.FREE,
        LogKind.STEP_ENDS,
    ]


@pytest.mark.parametrize("planned", [False, True])
def test_the_log_ends_where_profiling_does(allocator: PlannedAllocator, planned: bool) -> None:
    allocator.begin_step(StepMode.PROFILED)
    block, other = allocator.allocate(1000), allocator.allocate(1000)
    allocator.end_step()
    allocator.free(other)
    if planned:
        allocator.adopt_plan([stream_plan(0, [(PAGE, 0)])], PAGE)
        allocator.free(block)
    else:
        allocator.begin_step(StepMode.UNPLANNED)
        allocator.free(block)
        allocator.end_step()
    assert kinds(allocator) == []
