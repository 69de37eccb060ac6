"""Who is told of requests that the plan does not serve."""

from __future__ import annotations

import pytest

from gpu_runtime._core import Mismatch, MismatchKind, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

PAGE = 4096


@pytest.fixture
def allocator() -> PlannedAllocator:
    """Return an allocator within a step of which one request is known and has come."""
    made = PlannedAllocator(SimulatedMemory(PAGE, 1024 * PAGE))
    made.adopt([small_plan([(PAGE, 0)])], PAGE)
    made.begin_step()
    made.allocate(PAGE)
    return made


def test_the_listener_may_use_the_allocator(allocator: PlannedAllocator) -> None:
    told: list[tuple[MismatchKind, int]] = []

    def listen(mismatch: Mismatch) -> None:
        # The lock is not held: what takes it does not hang.
        told.append((mismatch.kind, allocator.figures().requested_bytes))
        allocator.free(allocator.allocate(0))
        allocator.on_mismatch(None)

    allocator.on_mismatch(listen)
    allocator.allocate(5)
    allocator.allocate(6)
    assert told == [(MismatchKind.EXTRA, PAGE + 5)]


def test_it_is_told_of_those_that_are_kept(allocator: PlannedAllocator) -> None:
    told: list[int] = []
    allocator.on_mismatch(lambda mismatch: told.append(mismatch.bytes))
    sizes = range(100, 180)
    for size in sizes:
        allocator.allocate(size)
        allocator.end_step()
        allocator.adopt([small_plan([])], 0)
        allocator.begin_step()
    assert told == [mismatch.bytes for mismatch in allocator.mismatches()] == list(sizes)[:64]
    assert allocator.mismatch_counts()[MismatchKind.EXTRA.value] == len(sizes)


def test_between_steps_nobody_is_told(allocator: PlannedAllocator) -> None:
    told: list[int] = []
    allocator.on_mismatch(lambda mismatch: told.append(mismatch.bytes))
    allocator.end_step()
    allocator.allocate(5)
    assert told == []
