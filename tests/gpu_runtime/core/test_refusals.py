"""Each call to the device fails once, or for a while: nothing is lost and nothing is corrupted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_runtime._core import BLOCK_ALIGNMENT, ESCAPES, PlannedAllocator, SimulatedMemory, StepMode
from tests.gpu_runtime.core.small_plans import stream_plan
from tests.gpu_runtime.core.stamped_blocks import Block, StampedBlocks
from tests.slow import one_by_one

pytestmark = pytest.mark.core

PAGE = 4096
CAPACITY = 24 * PAGE
ARENA = 6 * PAGE
# Stream 0:  | 0 0 | 1 1 |      and, when 0 is freed,  | 2 | . | 1 1 |
#            request 3 outlives the step; stream 1 has the two pages behind.
PLAN = (
    stream_plan(0, [(2 * PAGE, 0), (2 * PAGE, 2 * PAGE), (PAGE, 0), (900, ESCAPES)], [[], [], [0]]),
    stream_plan(1, [(2 * PAGE, 4 * PAGE)]),
)


class Workload:
    """Uses all that the allocator has, over a device that may refuse each of its calls."""

    def __init__(self, memory: SimulatedMemory) -> None:
        self.memory = memory
        self.heap = StampedBlocks(PlannedAllocator(memory))
        self.refusals: list[str] = []

    def attempt(self, call: Callable[[], None]) -> bool:
        """Do something that the device may refuse, and hold all rules afterwards."""
        try:
            call()
        except (OSError, MemoryError) as error:
            self.refusals.append(str(error))
            self.heap.check_all()
            return False
        return True

    def allocate(self, size: int, stream: int = 0, used_on: int | None = None) -> list[Block]:
        """Return a new block, or none; perhaps another stream is at work on it."""
        made: list[Block] = []
        self.attempt(lambda: made.append(self.heap.allocate(size, stream)))
        if used_on is not None:
            for block in made:
                self.memory.submit(used_on)
                self.heap.allocator.use_on(block.address, used_on)
        return made

    def free(self, blocks: list[Block]) -> None:
        """Give blocks back, which succeeds whatever the device says."""
        for block in blocks:
            self.heap.free(block)
        self.heap.allocator.check()

    def outside_of_steps(self) -> None:
        """Reuse, use elsewhere, give back, run short of memory."""
        first = self.allocate(3 * PAGE)
        second = self.allocate(2 * PAGE + 100, 1, used_on=2)
        third = self.allocate(700, 1, used_on=0)
        self.free(first + second)
        self.allocate(100)
        self.free(third)
        self.memory.finish(2)
        self.allocate(PAGE, 1)
        self.attempt(self.heap.allocator.give_back)
        # More than is left without what streams 0 and 1 have freed.
        self.free(self.allocate(9 * PAGE, 0, used_on=1) + self.allocate(6 * PAGE, 1))
        self.free(self.allocate(19 * PAGE, 2))

    def profiled_step(self) -> None:
        """Leave idle pages behind, which move along."""
        self.heap.allocator.begin_step(StepMode.PROFILED)
        for _ in range(3):
            self.free(self.allocate(2 * PAGE))
            self.allocate(64)
        self.heap.allocator.end_step()

    def adopt(self) -> bool:
        """Adopt a plan, again where that fails."""
        streams = list(PLAN)
        return any(
            self.attempt(lambda: self.heap.allocator.adopt_plan(streams, ARENA)) for _ in range(3)
        )

    def planned_step(self) -> None:
        """Make the plan's requests, some used by stream 2 and each other's."""
        self.heap.allocator.begin_step(StepMode.PLANNED)
        zeroth = self.allocate(2 * PAGE, used_on=2)
        other = self.allocate(2 * PAGE, 1, used_on=0)
        first = self.allocate(2 * PAGE, used_on=1)
        self.free(zeroth)
        second = self.allocate(PAGE, used_on=2)
        self.free(self.allocate(900))
        self.heap.check_all()
        self.free(second + other + first)
        self.heap.allocator.end_step()

    def run(self) -> bool:
        """Do it all; return whether there is a plan at the end."""
        self.outside_of_steps()
        self.profiled_step()
        adopted = self.adopt()
        self.heap.check_all()
        for _ in range(3 if adopted else 0):
            self.planned_step()
        if adopted:
            # What the device refuses here is done when all else is given back.
            self.attempt(self.heap.allocator.drop_plan)
            adopted = self.adopt()
        if adopted:
            self.planned_step()
        self.attempt(self.heap.allocator.give_back)
        return adopted


def device_calls() -> int:
    memory = SimulatedMemory(PAGE, CAPACITY)
    workload = Workload(memory)
    assert workload.run()
    assert workload.refusals == []
    figures = workload.heap.allocator.figures()
    assert figures.planned_requests == 16
    assert figures.escaping_requests == 4
    assert figures.fallback_requests == figures.refused_frees == 0
    return memory.calls


@one_by_one("failures", [1, 20, 2, 3], first=2)
def test_nothing_is_lost_by_a_refused_call(failures: int) -> None:
    refusals = refused_frees = 0
    for call in range(device_calls()):
        memory = SimulatedMemory(PAGE, CAPACITY)
        memory.fail_after(call, failures)
        workload = Workload(memory)
        adopted = workload.run()
        figures = workload.heap.allocator.figures()
        refusals += len(workload.refusals)
        refused_frees += figures.refused_frees
        memory.fail_after(0, 0)
        workload.heap.free_all()
        workload.heap.allocator.give_back()
        workload.heap.check_all()
        arena = ARENA if adopted else 0
        assert memory.created_bytes == memory.mapped_bytes == arena
        assert memory.live_events == 0
        figures = workload.heap.allocator.figures()
        assert figures.requested_bytes == figures.allocated_bytes == figures.heap_bytes == 0
        assert figures.reserved_bytes == arena
        if adopted:
            # Nothing is withheld any more.
            before = figures.fallback_requests
            workload.planned_step()
            assert workload.heap.allocator.figures().fallback_requests == before
    assert refusals > 50
    assert refused_frees > 5


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("failures", [1, 2, 3, 4, 9])
@pytest.mark.parametrize(
    ("rest", "sizes"),
    [
        (0, (PAGE, PAGE)),
        (BLOCK_ALIGNMENT, (PAGE + BLOCK_ALIGNMENT, PAGE - 2 * BLOCK_ALIGNMENT)),
        (BLOCK_ALIGNMENT, (PAGE // 2, PAGE // 2)),
    ],
    ids=["whole pages", "a rest", "a rest in half a page"],
)
def test_half_an_arena_is_undone(
    call: int, failures: int, rest: int, sizes: tuple[int, int]
) -> None:
    memory = SimulatedMemory(PAGE, CAPACITY)
    allocator = PlannedAllocator(memory)
    first, second = (allocator.allocate(size) for size in sizes)
    allocator.free(first)
    allocator.give_back()
    # The heap has a page of which the first bytes are free, where the arena has a rest for them.
    assert memory.created_bytes == PAGE
    memory.fail_after(call, failures)
    calls = 5 if rest else 4  # to synchronise, reserve, create, map, and map the heap's page
    if call >= calls:
        allocator.adopt_plan(list(PLAN), ARENA + rest)
    else:
        with pytest.raises((OSError, MemoryError), match=r"told to fail|no physical memory"):
            allocator.adopt_plan(list(PLAN), ARENA + rest)
    memory.fail_after(0, 0)
    allocator.check()
    if call < calls:
        assert allocator.figures().arena_bytes == 0
        if failures == 1:  # what undoes it is not refused
            assert memory.created_bytes == memory.mapped_bytes == PAGE
        with pytest.raises(RuntimeError, match="a planned step needs a plan"):
            allocator.begin_step(StepMode.PLANNED)
        allocator.give_back()
        allocator.check()
        assert memory.created_bytes == memory.mapped_bytes == PAGE
        allocator.adopt_plan(list(PLAN), ARENA + rest)
    allocator.check()
    assert allocator.figures().arena_bytes == ARENA
    assert memory.created_bytes == ARENA + PAGE
    assert memory.mapped_bytes == ARENA + PAGE + (PAGE if rest else 0)
    allocator.free(second)
    allocator.give_back()
    allocator.check()
    assert memory.created_bytes == ARENA + (PAGE if rest else 0)
