"""What is written down of requests, frees and steps."""

from __future__ import annotations

import pytest

from gpu_runtime._core import LogKind, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.small_plans import small_kind

pytestmark = pytest.mark.core

PAGE = 4096


@pytest.fixture
def allocator() -> PlannedAllocator:
    """Return an allocator outside of a step."""
    return PlannedAllocator(SimulatedMemory(PAGE, 64 * PAGE))


def test_a_row_is_an_event(allocator: PlannedAllocator) -> None:
    allocator.begin_step(3)
    block = allocator.allocate(1000, 7)
    allocator.end_step()
    allocator.free(block)
    assert allocator.take_log().tolist() == [
        [LogKind.STEP_BEGINS.value, -1, 3, 0, -1, -1],
        [LogKind.REQUEST.value, 0, 1000, 7, -1, -1],
        [LogKind.STEP_ENDS.value, -1, 0, 0, -1, -1],
        [LogKind.FREE.value, 0, 1000, 7, -1, -1],
    ]
    assert allocator.take_log().shape == (0, 6)


def test_a_free_says_what_its_request_was_though_that_is_dropped(
    allocator: PlannedAllocator,
) -> None:
    allocator.adopt_book([small_kind([(PAGE, 0), (2 * PAGE, PAGE)])], 3 * PAGE)
    allocator.begin_step()
    allocator.allocate(PAGE)
    block = allocator.allocate(2 * PAGE)
    allocator.drop_log()
    allocator.end_step()
    allocator.drop_book()
    allocator.free(block)
    assert allocator.take_log().tolist() == [
        [LogKind.STEP_ENDS.value, -1, 0, 0, -1, -1],
        [LogKind.FREE.value, 1, 2 * PAGE, 0, 0, 1],
    ]


def test_a_free_is_of_the_last_block_at_its_address(allocator: PlannedAllocator) -> None:
    block = allocator.allocate(1000)
    allocator.free(block)
    assert allocator.allocate(1000) == block
    allocator.free(block)
    assert not allocator.free(block)
    assert [row[:2] for row in allocator.take_log().tolist()] == [
        [LogKind.REQUEST.value, 0],
        [LogKind.FREE.value, 0],
        [LogKind.REQUEST.value, 1],
        [LogKind.FREE.value, 1],
    ]
