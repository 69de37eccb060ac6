"""Bytes of the arena that streams hand each other: who gets them waits on the device, if need be.

Who may have which bytes at all is for the random programs; here is who waits for what.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpu_runtime._core import PlannedAllocator, SimulatedMemory, with_hand_overs
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

PAGE = 4096


class Steps:
    """Steps of one kind over a device that keeps who waited for what."""

    def __init__(
        self,
        places: Sequence[tuple[int, int]],
        streams: int | Sequence[int] = 0,
        is_plain: bool = False,
    ) -> None:
        self.memory = SimulatedMemory(PAGE, 512 * PAGE)
        self.allocator = PlannedAllocator(self.memory, is_plain)
        kinds = with_hand_overs([small_plan(places, streams)], 8 * PAGE)
        self.allocator.adopt(kinds, 8 * PAGE)
        self._seen = 0

    def use(self, address: int, stream: int) -> None:
        """Have a stream work on a block."""
        self.memory.submit(stream)
        self.allocator.use_on(address, stream)

    def waits(self) -> list[tuple[int, int, int]]:
        """Return who was made to wait for whom since this was asked last, and for how much."""
        waits = self.memory.waits[self._seen :]
        self._seen += len(waits)
        return sorted((wait.waiting, wait.awaited, wait.position) for wait in waits)


def test_the_next_owner_waits_for_the_work_until_the_free() -> None:
    #  offset  0   1   2
    #          | 0   0 |
    #          | 1 | 2 |
    steps = Steps([(2 * PAGE, 0), (PAGE, 0), (PAGE, PAGE)])
    steps.allocator.begin_step()
    first = steps.allocator.allocate(2 * PAGE)
    steps.use(first, 5)
    steps.use(first, 5)
    steps.memory.submit(5)
    steps.allocator.free(first)
    steps.memory.submit(5)
    assert steps.waits() == []
    second = steps.allocator.allocate(PAGE)
    assert steps.waits() == [(0, 5, 3)]
    # The stream waits for this event already.
    third = steps.allocator.allocate(PAGE)
    assert steps.waits() == []
    assert steps.memory.live_events == 0
    steps.allocator.free(second)
    steps.allocator.free(third)
    assert steps.allocator.end_step().planned == 3


def test_a_user_of_bytes_behind_a_block_does_not_wait() -> None:
    steps = Steps([(PAGE, 0), (PAGE, PAGE)])
    steps.allocator.begin_step()
    first = steps.allocator.allocate(PAGE)
    steps.use(first, 5)
    steps.allocator.free(first)
    assert steps.allocator.allocate(PAGE) == first + PAGE
    assert steps.waits() == []
    assert steps.memory.live_events == 1
    steps.allocator.end_step()


def test_a_stream_does_not_wait_for_itself() -> None:
    steps = Steps([(2 * PAGE, 0), (PAGE, 0), (2 * PAGE, PAGE), (3 * PAGE, 0)])
    steps.allocator.begin_step()
    for size in (2 * PAGE, PAGE, 2 * PAGE, 3 * PAGE):
        block = steps.allocator.allocate(size)
        steps.use(block, 0)
        steps.allocator.free(block)
    assert steps.allocator.end_step().planned == 4
    assert steps.waits() == []
    assert steps.memory.live_events == 0


def test_a_hand_over_that_is_planned_waits_for_the_work_until_the_free() -> None:
    steps = Steps([(PAGE, 0), (PAGE, 0)], [3, 4])
    steps.allocator.begin_step()
    first = steps.allocator.allocate(PAGE, 3)
    steps.memory.submit(3)
    steps.allocator.free(first)
    for _ in range(5):
        steps.memory.submit(3)
    assert steps.allocator.allocate(PAGE, 4) == first
    assert steps.waits() == [(4, 3, 1)]
    steps.allocator.end_step()


def test_a_hand_over_that_is_not_planned_waits_for_all_work() -> None:
    # Stream 3 comes back for nothing in the kind; a request of 4 comes in its place.
    steps = Steps([(PAGE, 0)], 3)
    steps.allocator.begin_step()
    first = steps.allocator.allocate(PAGE, 3)
    steps.memory.submit(3)
    steps.allocator.free(first)
    steps.memory.submit(3)
    steps.allocator.end_step()
    steps.allocator.adopt([small_plan([(PAGE, 0)], 4)], 8 * PAGE)
    steps.allocator.begin_step()
    assert steps.allocator.allocate(PAGE, 4) == first
    assert steps.waits() == [(4, 3, 2)]
    assert steps.memory.live_events == 0
    steps.allocator.end_step()


def test_a_block_over_several_that_were_freed_waits_once_for_each_stream() -> None:
    #          | 0 | 1 | 2 | 3 |      of streams 3 and 4 in turn
    #          | 4   4   4   4 |      of stream 5
    places = [(PAGE, k * PAGE) for k in range(4)]
    steps = Steps([*places, (4 * PAGE, 0)], [3, 4, 3, 4, 6])
    steps.allocator.begin_step()
    blocks = [steps.allocator.allocate(PAGE, stream) for stream in (3, 4, 3, 4)]
    for block in blocks:
        steps.allocator.free(block)
    steps.allocator.end_step()
    steps.waits()
    steps.allocator.adopt([small_plan([(4 * PAGE, 0)], 5)], 8 * PAGE)
    steps.allocator.begin_step()
    assert steps.allocator.allocate(4 * PAGE, 5) == blocks[0]
    assert {wait[:2] for wait in steps.waits()} == {(5, 3), (5, 4)}
    steps.allocator.end_step()


@pytest.mark.parametrize("captured", [3, 4], ids=["who had it", "who gets it"])
def test_a_range_does_not_change_streams_while_one_is_captured(captured: int) -> None:
    steps = Steps([(PAGE, 0)], 3)
    steps.allocator.begin_step()
    place = steps.allocator.allocate(PAGE, 3)
    steps.allocator.free(place)
    steps.allocator.end_step()
    steps.allocator.adopt([small_plan([(PAGE, 0)], 4)], 8 * PAGE)
    steps.memory.set_captured(captured, True)
    steps.allocator.begin_step()
    assert steps.allocator.allocate(PAGE, 4) != place
    steps.memory.set_captured(captured, False)
    assert steps.allocator.end_step().unexpected == 1
    steps.allocator.begin_step()
    assert steps.allocator.allocate(PAGE, 4) == place
    assert steps.waits() == [(4, 3, 0)]
    steps.allocator.end_step()


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_no_memory_leaves_while_a_stream_is_captured(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 512 * PAGE)
    allocator = PlannedAllocator(memory, is_plain)
    blocks = [allocator.allocate(16 * PAGE, stream) for stream in (3, 4)]
    for block in blocks:
        allocator.free(block)
    memory.set_captured(3, True)
    allocator.give_back()
    assert memory.created_bytes == 32 * PAGE
    assert allocator.allocate(16 * PAGE, 3) == blocks[0]
    memory.set_captured(3, False)
    allocator.free(blocks[0])
    allocator.give_back()
    assert memory.created_bytes == 0


def test_a_range_of_a_stream_that_is_gone_is_used_again_when_the_device_was_waited_for() -> None:
    steps = Steps([(PAGE, 0)], 3)
    steps.allocator.begin_step()
    place = steps.allocator.allocate(PAGE, 3)
    steps.allocator.free(place)
    steps.allocator.end_step()
    steps.memory.submit(3, place, PAGE)
    steps.memory.destroy_stream(3)
    steps.allocator.adopt([small_plan([(PAGE, 0)], 4)], 8 * PAGE)
    for is_waited_for in (False, True):
        steps.allocator.begin_step()
        block = steps.allocator.allocate(PAGE, 4)
        assert (block == place) == is_waited_for
        steps.allocator.free(block)
        assert steps.allocator.end_step().planned == is_waited_for
        steps.allocator.check()
    assert steps.waits() == []


def test_a_stream_that_comes_back_is_not_gone() -> None:
    # A handle of a stream that is gone names a new one before the device was waited for.
    steps = Steps([(PAGE, 0)], 3)
    steps.allocator.begin_step()
    place = steps.allocator.allocate(PAGE, 3)
    steps.allocator.free(place)
    steps.allocator.end_step()
    steps.memory.destroy_stream(3)
    steps.allocator.adopt([small_plan([(PAGE, 0)], 4)], 8 * PAGE)
    steps.allocator.begin_step()
    assert steps.allocator.allocate(PAGE, 4) != place
    steps.allocator.free(steps.allocator.allocate(PAGE, 3))
    steps.memory.submit(4)
    event = steps.memory.record_event(4)
    steps.allocator.end_step()
    assert not steps.memory.is_done(event), "the host does not wait"


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_memory_of_a_stream_that_is_gone_is_given_back(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 512 * PAGE)
    allocator = PlannedAllocator(memory, is_plain)
    blocks = [allocator.allocate(16 * PAGE, 3) for _ in range(2)]
    allocator.use_on(blocks[1], 4)
    memory.submit(3, blocks[0], 32 * PAGE)
    memory.submit(4, blocks[1], 16 * PAGE)
    for stream in (3, 4):
        memory.destroy_stream(stream)
    for block in blocks:
        allocator.free(block)
    assert allocator.figures().refused_frees == 0
    allocator.give_back()
    assert memory.created_bytes == 0


def test_an_unrecorded_user_of_a_block_is_waited_for() -> None:
    # The second stream reads what the first one made; the third one gets the bytes next.
    steps = Steps([(PAGE, 0), (PAGE, PAGE), (PAGE, 0)], [1, 2, 3])
    steps.allocator.begin_step()
    made = steps.allocator.allocate(PAGE, 1)
    steps.allocator.allocate(PAGE, 2)
    steps.memory.submit(2)
    steps.memory.submit(2)
    steps.allocator.free(made)
    steps.memory.submit(2)
    assert steps.allocator.allocate(PAGE, 3) == made
    assert (3, 2, 2) in steps.waits()
