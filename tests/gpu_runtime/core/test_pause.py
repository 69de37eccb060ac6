"""Memory that goes back to the device while its blocks stay in use, over real bytes.

Random programs with pauses, over devices that refuse calls too, are in random_programs.cpp.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpu_runtime._core import LedgerMemory, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.small_plans import small_plan
from tests.gpu_runtime.core.stamped_blocks import StampedBlocks, bytes_at

pytestmark = pytest.mark.core

PAGE = 4096
ROOM = 1 << 30


class Pausable(StampedBlocks):
    """Blocks over a simulated device, with tags."""

    def __init__(self, capacity: int = ROOM, *, is_checked: bool = False) -> None:
        self.memory = SimulatedMemory(PAGE, capacity)
        self.planned = PlannedAllocator(self.memory, is_checked=is_checked)
        super().__init__(self.planned)

    @contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        before = self.planned.set_tag(tag)
        yield
        self.planned.set_tag(before)

    def created_pages(self) -> int:
        return self.memory.created_bytes // PAGE


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises((OSError, MemoryError, RuntimeError, ValueError)) as raised:
        call(*arguments)
    return f"{raised.type.__name__}: {raised.value}"


@pytest.mark.parametrize("is_checked", [False, True], ids=["plain", "checked"])
def test_contents_and_addresses_come_again(is_checked: bool) -> None:
    blocks = Pausable(is_checked=is_checked)
    for size in (100, PAGE, 5 * PAGE + 100, 3000, 40 * PAGE):
        blocks.allocate(size, size % 3)
    before = blocks.memory.created_bytes
    assert blocks.planned.pause(None, True) == before
    assert blocks.memory.created_bytes == blocks.memory.mapped_bytes == 0
    figures = blocks.planned.figures()
    assert figures.paused_bytes == figures.kept_bytes == before
    assert len(blocks.planned.paused_blocks()) == 5
    assert blocks.planned.figures().reserved_bytes == 0
    blocks.planned.check()
    assert blocks.planned.resume(None) == before == blocks.memory.created_bytes
    blocks.check_all()
    assert blocks.planned.figures().paused_bytes == 0
    # The memory of the host serves the next pause.
    assert blocks.memory.host_allocations == 1
    blocks.planned.pause(None, True)
    assert blocks.memory.host_allocations == 1
    blocks.planned.resume(None)
    blocks.check_all()
    assert blocks.planned.take_overwrites(True) == []
    blocks.free_all()
    assert blocks.planned.take_overwrites(True) == []
    blocks.planned.give_back()
    assert blocks.memory.created_bytes == blocks.memory.live_events == 0
    assert blocks.memory.host_allocations == 0


def test_a_tag_goes_alone_and_shares_no_frame_with_others() -> None:
    blocks = Pausable()
    with blocks.tagged("weights"):
        weights = [blocks.allocate(1000) for _ in range(9)]
    others = [blocks.allocate(1000) for _ in range(9)]
    assert blocks.created_pages() == 3 + 3
    assert blocks.planned.pause("weights", True) == 3 * PAGE
    for block in others:
        blocks.check(block)
    assert blocks.planned.paused_blocks() == [(block.address, 1000) for block in weights]
    with blocks.tagged("weights"):
        late = blocks.allocate(1000)
    assert blocks.planned.resume("weights") == 3 * PAGE
    blocks.check_all()
    # While the tag was paused, requests had none.
    blocks.planned.pause("weights", True)
    blocks.check(late)


def test_contents_that_are_not_kept_need_no_host_memory() -> None:
    blocks = Pausable()
    block = blocks.allocate(3 * PAGE)
    blocks.planned.pause(None, False)
    assert blocks.planned.figures().paused_bytes == 3 * PAGE
    assert blocks.planned.figures().kept_bytes == 0
    assert blocks.memory.host_allocations == 0
    blocks.planned.resume(None)
    bytes_at(block)[:] = 7


def test_a_full_device_loses_nothing() -> None:
    blocks = Pausable(40 * PAGE)
    with blocks.tagged("weights"):
        weights = blocks.allocate(30 * PAGE)
    blocks.planned.pause("weights", True)
    guest = blocks.memory.create_pages(20 * PAGE)
    assert refusal(blocks.planned.resume, "weights").startswith("MemoryError: no physical memory")
    assert blocks.memory.created_bytes == 20 * PAGE
    assert blocks.planned.figures().kept_bytes == 30 * PAGE
    blocks.memory.release_pages(guest)
    # Idle memory of this allocator makes room.
    blocks.free(blocks.allocate(25 * PAGE))
    assert blocks.memory.created_bytes == 25 * PAGE
    assert blocks.planned.resume("weights") == 30 * PAGE
    blocks.check(weights)


def test_the_arena_of_a_plan_goes_and_comes() -> None:
    blocks = Pausable()
    blocks.planned.adopt([small_plan([(10 * PAGE, 0), (5 * PAGE, 10 * PAGE)])], 15 * PAGE)
    blocks.planned.begin_step()
    first, second = blocks.allocate(10 * PAGE), blocks.allocate(5 * PAGE)
    assert blocks.planned.end_step().planned == 2
    blocks.free(first)
    assert blocks.planned.pause(None, True) == 15 * PAGE
    # A step that begins meanwhile maps no arena.
    blocks.planned.begin_step()
    blocks.planned.end_step(completed=False)
    assert blocks.memory.created_bytes == 0
    assert blocks.planned.resume(None) == 5 * PAGE
    assert blocks.planned.figures().arena_bytes == 5 * PAGE
    blocks.check(second)
    blocks.free(second)
    blocks.planned.begin_step()
    assert blocks.planned.figures().arena_bytes == 15 * PAGE
    assert [blocks.allocate(10 * PAGE).address, blocks.allocate(5 * PAGE).address] == [
        first.address,
        second.address,
    ]
    assert blocks.planned.end_step().planned == 2


def test_refuses_memory_that_cannot_be_paused() -> None:
    plain = PlannedAllocator(SimulatedMemory(PAGE, ROOM), is_plain=True)
    assert "libraries may have registered it" in refusal(plain.pause, None, True)
    blocks = Pausable()
    assert refusal(blocks.planned.pause, "weights", True) == (
        "ValueError: tag: one of none so far, found 'weights'"
    )
    with blocks.tagged("a"), blocks.tagged("b"):
        blocks.allocate(1)
    assert refusal(blocks.planned.resume, "weights") == (
        "ValueError: tag: one of 'a' 'b', found 'weights'"
    )
    blocks.memory.set_captured(0, True)
    assert refusal(blocks.planned.pause, None, True) == (
        "RuntimeError: memory is paused and resumed while no graph is captured"
    )


def test_an_access_to_a_paused_block_is_an_illegal_one() -> None:
    blocks = Pausable()
    block = blocks.allocate(PAGE)
    blocks.planned.pause(None, True)
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        bytes_at(block)[0] = 1
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV


def test_a_ledger_pauses_too() -> None:
    memory = LedgerMemory(PAGE, ROOM)
    allocator = PlannedAllocator(memory)
    block = allocator.allocate(9 * PAGE)
    assert allocator.pause(None, True) == 9 * PAGE
    assert memory.created_bytes == 0
    assert allocator.resume(None) == 9 * PAGE
    assert allocator.free(block)
    allocator.check()
