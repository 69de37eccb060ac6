"""Places of the arena that other streams use: who gets the bytes next waits, then and once."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from gpu_runtime._core import MismatchKind, PlannedAllocator, SimulatedMemory, StepMode, StreamPlan
from tests.gpu_runtime.core.small_plans import stream_plan
from tests.gpu_runtime.core.stamped_blocks import Block, StampedBlocks
from tests.slow import one_by_one

pytestmark = pytest.mark.core

PAGE = 4096
BLOCK = 512


class Steps:
    """Planned steps over a device that keeps who waited for what."""

    def __init__(self, *plans: StreamPlan, arena: int = 8 * PAGE) -> None:
        self.memory = SimulatedMemory(PAGE, 512 * PAGE)
        self.allocator = PlannedAllocator(self.memory)
        self.allocator.adopt_plan(list(plans), arena)
        self._seen = 0

    def begin(self) -> None:
        self.allocator.begin_step(StepMode.PLANNED)

    def end(self) -> None:
        self.allocator.end_step()

    def use(self, address: int, stream: int) -> None:
        """Have a stream work on a block."""
        self.memory.submit(stream)
        self.allocator.use_on(address, stream)

    def waits(self) -> list[tuple[int, int, int]]:
        """Return who was made to wait for whom since this was asked last, and for how much."""
        waits = self.memory.waits[self._seen :]
        self._seen += len(waits)
        return sorted((wait.waiting, wait.awaited, wait.position) for wait in waits)


def test_the_next_owner_waits_for_the_work_until_the_free_and_once() -> None:
    #  offset  0   1   2
    #          | 0   0 |
    #          | 1 | 2 |      both get bytes of 0; the stream waits for them once
    steps = Steps(stream_plan(0, [(2 * PAGE, 0), (PAGE, 0), (PAGE, PAGE)], [[], [0]]))
    steps.begin()
    first = steps.allocator.allocate(2 * PAGE)
    steps.use(first, 5)
    steps.use(first, 5)
    steps.memory.submit(5)
    steps.allocator.free(first)
    steps.memory.submit(5)
    assert steps.waits() == []
    second = steps.allocator.allocate(PAGE)
    assert steps.waits() == [(0, 5, 3)]
    third = steps.allocator.allocate(PAGE)
    assert steps.waits() == []
    assert steps.memory.live_events == 0
    steps.allocator.free(second)
    steps.allocator.free(third)
    steps.end()
    assert steps.allocator.figures().planned_requests == 3


def test_who_gets_the_bytes_behind_does_not_wait() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, PAGE)], [[], [0]]))
    steps.begin()
    first = steps.allocator.allocate(PAGE)
    steps.use(first, 5)
    steps.allocator.free(first)
    assert steps.allocator.allocate(PAGE) == first + PAGE
    assert steps.waits() == []
    assert steps.memory.live_events == 1
    steps.end()


def test_the_wait_may_come_in_a_later_step() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, PAGE)]))
    steps.begin()
    first, second = steps.allocator.allocate(PAGE), steps.allocator.allocate(PAGE)
    steps.use(second, 5)
    steps.allocator.free(first)
    steps.allocator.free(second)
    steps.end()
    steps.begin()
    assert steps.allocator.allocate(PAGE) == first
    assert steps.waits() == []
    steps.end()
    steps.begin()
    # The first is held too long and goes to the heap now; the second is where it was.
    steps.allocator.allocate(PAGE)
    assert steps.waits() == []
    assert steps.allocator.allocate(PAGE) == second
    assert steps.waits() == [(0, 5, 1)]
    steps.end()


def test_each_of_several_streams_is_waited_for() -> None:
    steps = Steps(stream_plan(3, [(PAGE, 0), (PAGE, 0)], [[], [0]]))
    steps.begin()
    block = steps.allocator.allocate(PAGE, 3)
    for stream in (5, 6, 3, 6):
        steps.use(block, stream)
    steps.allocator.free(block)
    assert steps.memory.live_events == 2, "not for its own stream"
    steps.allocator.allocate(PAGE, 3)
    assert steps.waits() == [(3, 5, 1), (3, 6, 2)]
    steps.end()


def test_giving_back_waits_for_all_uses() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, 0)], [[], [0]]))
    steps.begin()
    block = steps.allocator.allocate(PAGE)
    steps.use(block, 5)
    steps.allocator.free(block)
    steps.allocator.give_back()
    assert steps.memory.live_events == 0
    steps.allocator.allocate(PAGE)
    assert steps.waits() == []
    steps.end()


def test_a_place_whose_use_is_not_recorded_is_withheld() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, 0)], [[], [0]]))
    steps.begin()
    place = steps.allocator.allocate(PAGE)
    steps.use(place, 5)
    steps.memory.fail_after(0)
    steps.allocator.free(place)
    steps.allocator.free(place)
    figures = steps.allocator.figures()
    assert figures.refused_frees == 1
    assert figures.requested_bytes == 0
    assert steps.allocator.allocate(PAGE) != place
    steps.end()
    for _ in range(3):
        steps.begin()
        for _ in range(2):
            block = steps.allocator.allocate(PAGE)
            assert block != place
            steps.allocator.free(block)
        steps.end()
    assert steps.allocator.mismatch_counts()[MismatchKind.IN_USE.value] == 7
    # The device is done with everything: nothing is in the way any more.
    steps.allocator.give_back()
    steps.begin()
    assert steps.allocator.allocate(PAGE) == place
    assert steps.waits() == []
    steps.end()


def test_a_refused_wait_is_an_error_and_the_next_owner_waits() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, 0), (PAGE, 0)], [[], [0], [1]]))
    steps.begin()
    place = steps.allocator.allocate(PAGE)
    steps.use(place, 5)
    steps.allocator.free(place)
    steps.memory.fail_after(0)
    with pytest.raises(OSError, match="make_wait"):
        steps.allocator.allocate(PAGE)
    assert steps.waits() == []
    assert steps.allocator.allocate(PAGE) == place
    assert steps.waits() == [(0, 5, 1)]
    assert steps.memory.live_events == 0
    assert steps.allocator.figures().requested_bytes == PAGE
    steps.end()


def test_an_event_that_is_not_destroyed_is_not_waited_for_twice() -> None:
    steps = Steps(stream_plan(0, [(PAGE, 0), (PAGE, 0), (PAGE, 0)], [[], [0], [1]]))
    steps.begin()
    place = steps.allocator.allocate(PAGE)
    steps.use(place, 5)
    steps.allocator.free(place)
    steps.memory.fail_after(1)
    with pytest.raises(OSError, match="destroy_event"):
        steps.allocator.allocate(PAGE)
    assert steps.allocator.allocate(PAGE) == place
    assert steps.waits() == [(0, 5, 1)]
    assert steps.memory.live_events == 0
    steps.end()


class RandomStep:
    """A step of two streams whose requests reuse each other's bytes, by first fit."""

    def __init__(self, random: Random, requests: int) -> None:
        self.places: dict[int, list[tuple[int, int]]] = {1: [], 2: []}
        self.freed_before: dict[int, list[list[int]]] = {1: [], 2: []}
        self.begin = {1: 0, 2: 16 * PAGE}
        for stream in (1, 2):
            live: list[int] = []
            for _ in range(requests):
                freed = [k for k in live if random.random() < 0.3]
                live = [k for k in live if k not in freed]
                self.freed_before[stream].append(freed)
                size = random.randint(1, 6 * BLOCK)
                offset = self._first_fit(stream, live, size)
                live.append(len(self.places[stream]))
                self.places[stream].append((size, offset))
        self.order = random.sample([1] * requests + [2] * requests, 2 * requests)

    def _first_fit(self, stream: int, live: list[int], size: int) -> int:
        at = self.begin[stream]
        for begin, end in sorted(self.span(stream, k) for k in live):
            if at + -(-size // BLOCK) * BLOCK <= begin:
                break
            at = max(at, end)
        return at

    def span(self, stream: int, request: int) -> tuple[int, int]:
        """Return where a request begins and ends in the arena."""
        size, offset = self.places[stream][request]
        return offset, offset + -(-size // BLOCK) * BLOCK

    def plans(self) -> list[StreamPlan]:
        """Return the plan of each stream."""
        return [stream_plan(s, self.places[s], self.freed_before[s]) for s in (1, 2)]

    def events(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield (stream, request, requests of the stream that are freed before)."""
        following = {1: 0, 2: 0}
        for stream in self.order:
            request = following[stream]
            following[stream] += 1
            yield stream, request, self.freed_before[stream][request]


@one_by_one("seed", range(8), first=3)
def test_exactly_those_who_get_the_bytes_wait(seed: int) -> None:
    random = Random(seed)
    step = RandomStep(random, 30)
    steps = Steps(*step.plans(), arena=32 * PAGE)
    submitted = dict.fromkeys(range(5), 0)
    uses: list[tuple[tuple[int, int], int, int]] = []  # span, stream, position: not waited for yet
    users: dict[tuple[int, int], set[int]] = {}
    address: dict[tuple[int, int], int] = {}
    waited = 0

    def free(stream: int, request: int) -> None:
        steps.allocator.free(address.pop((stream, request)))
        for user in users.pop((stream, request)):
            uses.append((step.span(stream, request), user, submitted[user]))

    for _ in range(40):
        steps.begin()
        for stream, request, freed in step.events():
            for other in freed:
                free(stream, other)
            size, _ = step.places[stream][request]
            place = steps.allocator.allocate(size, stream)
            address[stream, request] = place
            users[stream, request] = set()
            begin, end = step.span(stream, request)
            due = [use for use in uses if use[0][0] < end and begin < use[0][1]]
            assert steps.waits() == sorted((stream, user, at) for _, user, at in due)
            waited += len(due)
            uses = [use for use in uses if use not in due]
            for user in random.sample(range(5), random.choice((0, 0, 1, 2))):
                steps.use(place, user)
                submitted[user] += 1
                if user != stream:
                    users[stream, request].add(user)
        for stream, request in list(address):
            free(stream, request)
        steps.end()
        assert steps.memory.live_events == len(uses) <= 2 * 5 * 30
    figures = steps.allocator.figures()
    assert figures.planned_requests == 40 * 60
    assert figures.fallback_requests == 0
    assert waited > 1000
    steps.allocator.give_back()
    assert steps.memory.live_events == 0


class WorkOfOthers:
    """An account of the work of streams on blocks that are freed."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.submitted = dict.fromkeys(range(5), 0)
        self.finished = dict.fromkeys(range(5), 0)
        self._used: dict[Block, set[int]] = {}
        self._freed: list[tuple[Block, int, int]] = []  # block, stream at work, position
        self._waits: dict[tuple[int, int], int] = {}  # of a stream for another, up to a position

    def use(self, block: Block, stream: int) -> None:
        self.steps.use(block.address, stream)
        self.submitted[stream] += 1
        self._used.setdefault(block, set()).add(stream)

    def finish(self, stream: int) -> None:
        self.steps.memory.finish(stream)
        self.finished[stream] = self.submitted[stream]

    def finish_all(self) -> None:
        """The device was waited for."""
        self.finished = dict(self.submitted)

    def freed(self, block: Block) -> None:
        for stream in self._used.pop(block, set()) - {block.stream}:
            self._freed.append((block, stream, self.submitted[stream]))

    def check(self, block: Block) -> None:
        """Nobody is at work on a new block, unless its stream waits for that."""
        for waiting, awaited, position in self.steps.waits():
            self._waits[waiting, awaited] = max(position, self._waits.get((waiting, awaited), 0))
        self._freed = [use for use in self._freed if use[2] > self.finished[use[1]]]
        for before, stream, position in self._freed:
            if before.overlaps(block):
                assert self._waits.get((block.stream, stream), 0) >= position, (before, block)


@one_by_one("seed", range(12), first=4)
def test_whatever_is_asked_for_nobody_is_at_work_there(seed: int) -> None:
    """Steps unlike the plan, blocks that are held, plans that come and go."""
    random = Random(seed)
    step = RandomStep(random, 30)
    steps = Steps(*step.plans(), arena=32 * PAGE + BLOCK)
    blocks = StampedBlocks(steps.allocator)
    work = WorkOfOthers(steps)

    def free(block: Block) -> None:
        blocks.free(block)
        work.freed(block)

    for _ in range(60):
        steps.begin()
        made: dict[tuple[int, int], Block] = {}
        skipped = random.random() < 0.3
        for stream, request, freed in step.events():
            for other in freed:
                block = made.pop((stream, other), None)
                if block is not None and random.random() < 0.95:
                    free(block)
            if skipped and random.random() < 0.1:
                continue
            size, _ = step.places[stream][request]
            size = random.randint(1, 3 * PAGE) if random.random() < 0.02 else size
            block = blocks.allocate(size, stream)
            work.check(block)
            made[stream, request] = block
            if random.random() < 0.3:
                work.use(block, random.randrange(5))
            if random.random() < 0.1:
                work.finish(random.randrange(5))
            if random.random() < 0.003:
                steps.allocator.give_back()
                work.finish_all()
            if skipped and random.random() < 0.01:
                break
        steps.end()
        for block in list(blocks.live.values()):
            if random.random() < 0.9:
                free(block)
        if random.random() < 0.15:
            # What is held stays in the arena of the plan before.
            steps.allocator.drop_plan()
            work.finish_all()
            step = RandomStep(random, 30)
            steps.allocator.adopt_plan(step.plans(), 32 * PAGE + BLOCK)
        blocks.check_all()
    figures = steps.allocator.figures()
    assert figures.planned_requests > figures.fallback_requests > 50
    blocks.free_all()
    steps.allocator.give_back()
    assert steps.memory.live_events == 0
    # Of the dropped plans nothing is left.
    assert steps.memory.created_bytes == steps.allocator.figures().reserved_bytes <= 33 * PAGE
