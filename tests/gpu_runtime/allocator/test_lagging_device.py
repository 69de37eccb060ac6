"""However far the host is ahead, pages above PyTorch's are made only where blocks fill the others.

An event is done when a test says so, many steps later.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from gpu_runtime import PlannedMemory
from gpu_runtime._core import LedgerMemory, LedgerStreams, PlannedAllocator, StepPlan

pytestmark = [
    pytest.mark.core,
    pytest.mark.filterwarnings("ignore:training goes on without a new plan"),
]

PAGE, PLENTY = 2 << 20, 1 << 40
STEPS = 100
# Shares of time in between would make the steps depend on the clock.
shares = pytest.mark.parametrize("share", [0, math.inf])


class LaggingProgram:
    """Looks at reserved bytes after each request, and at the pages that blocks in use touch."""

    def __init__(self, rng: Random, streams: int, share: float) -> None:
        self.rng, self.streams = rng, range(streams)
        self.device = LedgerMemory(PAGE, PLENTY, LedgerStreams.WHEN_TOLD)
        self.allocator = PlannedAllocator(self.device, share_of_moves=share)
        self.memory = PlannedMemory(time_limit=5.0, _planning="between")
        self.memory.attach(self.allocator)
        self.weights = [self.request(rng.randint(1, 8 << 20)) for _ in range(rng.randint(3, 20))]
        # A side stream keeps little, and leaves free pages.
        for stream in self.streams[1:]:
            for size in rng.sample((512, 300 << 10, 3 << 20, 20 << 20), 4):
                address = self.request(size, stream)
                if size > 512:
                    self.allocator.free(address)

    def request(self, size: int, stream: int = 0) -> int:
        before = self.allocator.figures().reserved_bytes
        address = self.allocator.allocate(size, stream)
        figures = self.allocator.figures()
        bound = min(figures.default_bytes, figures.expandable_bytes)
        if figures.reserved_bytes > max(before, bound):
            pages: set[int] = set()
            for begin, size, *_ in self.allocator.blocks_in_use():
                pages.update(range(begin // PAGE, -(-(begin + size) // PAGE)))
            assert figures.reserved_bytes == len(pages) * PAGE
        return address

    def use(self, *sizes: int) -> None:
        """Make blocks and free them."""
        for address in [self.request(size) for size in sizes]:
            self.allocator.free(address)

    def step(self, *sizes: int) -> int:
        """Return the bytes that are reserved behind the step."""
        self.allocator.begin_step()
        self.use(*sizes)
        self.allocator.end_step()
        return self.allocator.figures().reserved_bytes

    def finish(self) -> None:
        for stream in self.streams:
            self.device.finish(stream)


@shares
@pytest.mark.parametrize("lag", [1, 5, 50])
def test_steps_without_a_plan_use_pages_that_wait_to_go_back(lag: int, share: float) -> None:
    rng = Random(lag)
    program = LaggingProgram(rng, 13, share)
    reserved = []
    for number in range(STEPS):
        reserved.append(program.step(200, rng.randint(1, 26 << 20), 4))
        if number % lag == lag - 1:
            program.finish()
    program.allocator.check()
    # A request of random bytes needs pages that no step before has had, and no more than that.
    assert max(reserved) <= reserved[0] + (26 << 20) + 2 * PAGE


def test_old_mappings_of_another_stream_take_no_frames() -> None:
    mib, device = 1 << 20, LedgerMemory(PAGE, PLENTY, LedgerStreams.WHEN_TOLD)
    allocator = PlannedAllocator(device, share_of_moves=math.inf)
    allocator.allocate(200 * mib)
    # Two blocks of two streams meet within a page of the arena; a third one stays.
    sizes, streams = [9 * mib + 4096, 11 * mib, 512], [0, 1, 0]
    places = [0, sizes[0], sizes[0] + sizes[1]]
    allocator.adopt([StepPlan(0, *map(np.array, (streams, sizes, places)))], 24 * mib)
    allocator.begin_step()
    one, other, _ = map(allocator.allocate, sizes, streams)
    allocator.free(one)
    allocator.free(other)
    allocator.end_step()
    # The arena becomes ordinary memory, and a third stream takes its frames.
    allocator.adopt([StepPlan(1, *map(np.array, ([0], [512], [0])))], 512)
    allocator.free(allocator.allocate(26 * mib, 2))
    reserved = allocator.figures().reserved_bytes
    allocator.allocate(18 * mib)
    assert allocator.figures().reserved_bytes == reserved


def test_no_more_pages_go_back_than_lie_above_the_bound() -> None:
    program = LaggingProgram(Random(1), 13, math.inf)
    program.step(26 << 20)
    for _ in range(10):
        program.step(200)
    # Old mappings from before the step go first, and no two generations at once.
    for _ in range(3):
        program.finish()
        program.step(200)
    figures = program.allocator.figures()
    bound = figures.live_peak + figures.live_peak // 256 + 4 * PAGE
    assert bound - PAGE < figures.reserved_bytes <= bound


def test_a_plan_is_followed_again_behind_a_step_that_takes_its_pages() -> None:
    program = LaggingProgram(Random(1), 13, math.inf)
    for number in range(60):
        with program.memory.step():
            program.use(*((200, 30 << 20) if number % 10 == 9 else (200, 10 << 20, 7 << 20)))
        if number < 5:
            program.finish()
    # All but six others, and two before there is a plan.
    assert program.memory.report().planned_steps == 52


def test_places_of_a_new_plan_lie_in_pages_that_wait_to_go_back() -> None:
    program = LaggingProgram(Random(1), 13, math.inf)
    columns = (np.array([column]) for column in (0, 26 << 20, 0))
    plan = StepPlan(0, *columns)
    for plans in ([], [plan], [], [plan]):
        program.allocator.adopt(plans, 26 << 20 if plans else 0)
        program.step(26 << 20)
    assert program.allocator.figures().planned_requests == 2


@shares
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_kinds_of_steps_on_several_streams(first: int, share: float) -> None:
    planned = 0
    for seed in range(first, first + 20):
        rng = Random(seed)
        program = LaggingProgram(rng, rng.choice((2, 3, 5, 13)), share)
        run_kinds(program, rng)
        program.allocator.check()
        planned += program.memory.report().planned_steps
    assert planned > STEPS


def run_kinds(program: LaggingProgram, rng: Random) -> None:
    """Draw kinds of steps at random, some of whose blocks live until the next step."""
    allocator, lag = program.allocator, rng.choice((1, 2, 5, 20, 50))
    sizes = (4000, 1 << 20, 30 << 20)
    # Bytes, stream, whether the block lives on, and which block is freed then, if one is.
    kinds = [
        [
            (
                rng.randint(1, rng.choice(sizes)),
                rng.choice([0, 0, rng.choice(program.streams)]),
                rng.random() < 0.1,
                rng.randrange(20),
            )
            for _ in range(rng.randint(2, 10))
        ]
        for _ in range(rng.choice((1, 2, 4, 12)))
    ]
    kept: list[int] = []
    late: list[int] = []
    for _ in range(STEPS):
        with program.memory.step():
            live: list[int] = []
            next_late: list[int] = []
            for size, stream, lives_on, freed in rng.choice(kinds):
                address = program.request(size, stream)
                if rng.random() < 0.05:
                    allocator.use_on(address, rng.choice(program.streams))
                (next_late if lives_on else live).append(address)
                if freed < len(live):
                    allocator.free(live.pop(freed))
            if rng.random() < 0.05:
                kept.append(program.request(rng.randint(1, 3 << 20), rng.choice(program.streams)))
            for address in live + late:
                allocator.free(address)
            late = next_late
        if kept and rng.random() < 0.03:
            allocator.free(kept.pop(rng.randrange(len(kept))))
        if rng.random() < 1 / lag:
            program.finish()
