"""While no plan is followed, all requests may get free memory of the arena."""

from __future__ import annotations

import pytest

from gpu_runtime._core import NO_PLACE, CountingMemory, PlannedAllocator, SimulatedMemory
from gpu_runtime.allocator.call_counts import call_counts
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

FRAME = 2 << 20
# The shadow, which is at most a segment above what is in use, leaves no room for one more.
PAGE = 8 * FRAME
ARENA = 12 * PAGE


class Arena:
    """An allocator with one plan, whose arena has its memory, and no other free memory."""

    def __init__(
        self, *places: tuple[int, int], is_plain: bool = False, capacity: int = 1 << 30,
        before: int = 0,
    ) -> None:  # fmt: skip
        self.simulated = SimulatedMemory(FRAME, capacity)
        self.memory = CountingMemory(self.simulated)
        self.allocator = PlannedAllocator(self.memory, is_plain)
        self.allocator.free(self.allocator.allocate(before))
        self.allocator.adopt([small_plan([(PAGE, 0), *places])], ARENA)
        self.allocator.begin_step()
        self.begin = self.allocator.allocate(PAGE)
        self.calls = call_counts(self.memory.calls)

    def has(self, address: int) -> bool:
        return self.begin <= address < self.begin + ARENA

    def made_no_call(self) -> bool:
        return call_counts(self.memory.calls) == self.calls


plain_or_not = pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])


@plain_or_not
def test_the_rest_of_a_step_that_left_its_plan_gets_the_arena(is_plain: bool) -> None:
    arena = Arena((8 * PAGE, PAGE), is_plain=is_plain)
    first = arena.allocator.allocate(5 * PAGE)
    second = arena.allocator.allocate(6 * PAGE)
    assert first == arena.begin + PAGE
    assert second == first + 5 * PAGE
    arena.allocator.free(first)
    assert arena.allocator.allocate(4 * PAGE) == first
    assert arena.made_no_call()
    arena.allocator.check()
    # The arena has one page left.
    assert not arena.has(arena.allocator.allocate(2 * PAGE))
    assert not arena.made_no_call()


@plain_or_not
def test_requests_between_steps_get_the_arena(is_plain: bool) -> None:
    arena = Arena(is_plain=is_plain)
    assert arena.allocator.end_step().is_planned
    between = arena.allocator.allocate(11 * PAGE)
    assert arena.has(between)
    arena.allocator.free(between)
    # A step under another label follows no plan either.
    arena.allocator.begin_step(1)
    assert arena.allocator.allocate(11 * PAGE) == between
    assert arena.made_no_call()
    arena.allocator.check()


@pytest.mark.parametrize("was_open", [False, True], ids=["at first", "again"])
def test_a_request_without_a_place_stays_outside_while_its_step_follows(was_open: bool) -> None:
    arena = Arena((PAGE, NO_PLACE), (8 * PAGE, PAGE), before=ARENA + PAGE)
    allocator = arena.allocator
    if was_open:
        allocator.free(allocator.allocate(2 * PAGE))
        allocator.end_step()
        allocator.free(arena.begin)
        allocator.begin_step()
        assert allocator.allocate(PAGE) == arena.begin
    assert not arena.has(allocator.allocate(PAGE))
    assert allocator.allocate(8 * PAGE) == arena.begin + PAGE
    assert allocator.end_step().is_planned


def test_the_arenas_memory_is_used_after_that_outside() -> None:
    arena = Arena((2 * PAGE, NO_PLACE), capacity=ARENA + 2 * PAGE)
    outside = arena.allocator.allocate(2 * PAGE)
    arena.allocator.free(outside)
    # The plan expects no such request.
    addresses = [arena.allocator.allocate(PAGE) for _ in range(3)]
    assert addresses[:2] == [outside, outside + PAGE]
    assert arena.has(addresses[2])


def test_a_batch_between_steps_lies_outside_once_pytorch_would_have_memory_for_it() -> None:
    arena = Arena((11 * PAGE, PAGE))
    arena.allocator.free(arena.allocator.allocate(11 * PAGE))
    arena.allocator.end_step()
    arena.allocator.free(arena.begin)
    planned = []
    for _ in range(4):
        batch = arena.allocator.allocate(3 * FRAME)
        arena.allocator.begin_step()
        blocks = [arena.allocator.allocate(PAGE), arena.allocator.allocate(11 * PAGE)]
        for block in (*blocks, batch):
            arena.allocator.free(block)
        planned.append((arena.has(batch), arena.allocator.end_step().is_planned))
    # At first the batch has the place of a request of the step.
    assert planned == [(True, False), (False, True), (False, True), (False, True)]


@pytest.mark.parametrize("used_on", [0, 7], ids=["by its own stream", "by another too"])
def test_a_free_range_belongs_to_its_stream_which_waits_for_other_users(used_on: int) -> None:
    arena = Arena((8 * PAGE, PAGE))
    allocator, simulated = arena.allocator, arena.simulated
    place = allocator.allocate(8 * PAGE)
    simulated.submit(0)
    simulated.submit(used_on)
    allocator.use_on(place, used_on)
    allocator.free(place)
    allocator.end_step()
    # The range is the first stream's, the rest of the arena nobody's.
    assert allocator.allocate(6 * PAGE) == place
    assert [(wait.waiting, wait.awaited) for wait in simulated.waits] == [(0, 7)] * (used_on > 0)
    assert arena.has(allocator.allocate(3 * PAGE, 2))
    assert len(simulated.waits) == (used_on > 0), "nobody used these bytes"
    assert not arena.has(allocator.allocate(2 * PAGE, 1))
    allocator.check()
