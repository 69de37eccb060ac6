"""Reserved bytes of planned memory and of PyTorch's allocators, for the same requests."""

from __future__ import annotations

import math
from random import Random

import pytest

from gpu_runtime._core import (
    CountingMemory,
    LedgerMemory,
    PlannedAllocator,
    PytorchCaching,
    PytorchExpandable,
    ServingOnlineAllocator,
    SimulatedMemory,
)
from gpu_runtime.allocator.planned_memory import PlannedMemory
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = [
    pytest.mark.core,
    pytest.mark.filterwarnings("ignore:training goes on without a new plan"),
]

PAGE = 2 << 20
PLENTY = 1 << 40


def random_size(random: Random, unit: int) -> int:
    """Return a size of up to 100 units; a unit below a page gives every size below a page too."""
    return unit * round(math.exp(random.uniform(0, 4.6))) - (unit < PAGE and random.randrange(unit))


def shadow_bytes(allocator: PlannedAllocator) -> int:
    """Return what the better of PyTorch's two allocators would hold."""
    figures = allocator.figures()
    return min(figures.default_bytes, figures.expandable_bytes)


@pytest.mark.parametrize("kind", ["default", "expandable"])
@pytest.mark.parametrize("seed", range(6))
def test_the_shadow_reserves_what_the_online_allocator_reserves(seed: int, kind: str) -> None:
    random = Random(seed)
    made = PytorchExpandable if kind == "expandable" else PytorchCaching
    allocator = PlannedAllocator(LedgerMemory(PAGE, PLENTY), share_of_moves=0)
    counted = CountingMemory(LedgerMemory(PAGE, PLENTY))
    online = ServingOnlineAllocator(made(counted), counted)
    live: list[tuple[int, int]] = []
    for turn in range(3000):
        if live and random.random() < 0.35 + len(live) / 400:
            block, other = live.pop(random.randrange(len(live)))
            allocator.free(block)
            online.free(other)
        else:
            size = random_size(random, random.choice((700, 300_000, PAGE)))
            stream = random.randrange(3)
            live.append((allocator.allocate(size, stream), online.allocate(size, stream)))
        if turn % 700 == 699:
            assert (allocator.give_back() > 0) == (online.give_back() > 0)
        figures = allocator.figures()
        assert getattr(figures, f"{kind}_bytes") == online.figures().reserved_bytes
    assert getattr(figures, f"{kind}_peak") >= getattr(figures, f"{kind}_bytes") > 0


def test_a_block_that_another_stream_uses_keeps_its_memory_in_the_shadow_too() -> None:
    memory = SimulatedMemory(PAGE, 60 * PAGE)
    allocator = PlannedAllocator(memory, share_of_moves=0)
    reserved = []
    for is_finished in (False, False, True):
        if is_finished:
            memory.finish(7)
        block = allocator.allocate(10 * PAGE)
        memory.submit(7)
        allocator.use_on(block, 7)
        allocator.free(block)
        reserved.append(allocator.figures().expandable_bytes // PAGE)
    assert reserved == [10, 20, 20]


@pytest.mark.parametrize("share", [0.0, 0.01, math.inf])
@pytest.mark.parametrize("seed", range(4))
def test_reserved_bytes_are_never_above_the_shadow(seed: int, share: float) -> None:
    random = Random(seed)
    allocator = PlannedAllocator(LedgerMemory(PAGE, PLENTY), share_of_moves=share)
    live: list[int] = []
    for turn in range(4000):
        if turn % 500 == 0:
            low = random.random()
        if live and random.random() < 0.3 + low / 2:
            allocator.free(live.pop(random.randrange(len(live))))
        else:
            live.append(allocator.allocate(random_size(random, PAGE), random.randrange(2)))
        figures = allocator.figures()
        assert figures.reserved_bytes <= shadow_bytes(allocator)
    assert figures.requests_above_shadow == 0
    if share == math.inf:
        assert figures.reserved_peak <= figures.live_peak * 257 // 256 + 4 * PAGE
    allocator.check()


def random_step(random: Random, unit: int) -> list[tuple[int, int, int]]:
    """Return sizes, streams, and how many requests later each block is freed; -1 for a step."""
    return [
        (random_size(random, unit), random.randrange(2), random.choice((0, 1, 2, 5, 9, -1)))
        for _ in range(random.randrange(5, 40))
    ]


@pytest.mark.parametrize("share", [0.0, math.inf])
@pytest.mark.parametrize("unit", [PAGE, 300_000, 700], ids=["pages", "parts of pages", "small"])
@pytest.mark.parametrize("seed", [1, 2, 3, 28, 33, 80, 96, 162])
def test_the_bound_holds_while_plans_are_made_and_left(seed: int, unit: int, share: float) -> None:
    random = Random(seed)
    allocator = PlannedAllocator(LedgerMemory(PAGE, PLENTY), share_of_moves=share)
    memory = PlannedMemory("many-objects-size-best", _planning="between")
    memory.attach(allocator)
    above = 0
    outside: list[int] = []
    kept: list[int] = []

    def look() -> bool:
        figures = allocator.figures()
        is_above = figures.reserved_bytes > shadow_bytes(allocator)
        assert not is_above or unit < PAGE, "small blocks of several streams share no page"
        return is_above

    def allocate(size: int, stream: int) -> int:
        nonlocal above
        address = allocator.allocate(size, stream)
        above += look()
        return address

    def free(address: int) -> None:
        allocator.free(address)
        look()

    kinds = [random_step(random, unit) for _ in range(3)]
    order = [0]
    for number in range(60):
        # The first steps are equal, so that there is a plan to be left.
        if number < 5:
            pass
        elif random.random() < 0.15:
            order = [random.randrange(3) for _ in range(random.choice((1, 1, 2, 3)))]
        if number < 5:
            pass
        elif outside and random.random() < 0.15:
            free(outside.pop(random.randrange(len(outside))))
        elif random.random() < 0.15:
            outside.append(allocate(random_size(random, unit), random.randrange(2)))
        with memory.step():
            while kept:
                free(kept.pop())
            live: list[tuple[int, int]] = []
            for request, (size, stream, life) in enumerate(kinds[order[number % len(order)]]):
                for block in [block for block in live if block[1] == request]:
                    live.remove(block)
                    free(block[0])
                other = PAGE if number >= 5 and random.random() < 0.01 else 0
                address = allocate(size + other, stream)
                if life < 0:
                    kept.append(address)
                else:
                    live.append((address, request + 1 + life))
            for address, _ in live:
                free(address)
        look()
    allocator.check()
    assert memory.report().plans >= 1
    assert allocator.figures().requests_above_shadow == above


def fragmented(share: float, memory: SimulatedMemory | LedgerMemory) -> PlannedAllocator:
    """Return an allocator with 100 idle frames in pieces of ten."""
    allocator = PlannedAllocator(memory, share_of_moves=share)
    blocks = [allocator.allocate(10 * PAGE) for _ in range(20)]
    for block in blocks[::2]:
        allocator.free(block)
    return allocator


@pytest.mark.parametrize("is_beside", [False, True], ids=["without a plan", "beside plans"])
def test_without_a_budget_nothing_moves_below_the_shadow(is_beside: bool) -> None:
    still, moving = (fragmented(share, LedgerMemory(PAGE, PLENTY)) for share in (0, math.inf))
    for allocator in (still, moving):
        if is_beside:
            # PyTorch's allocators take a page for it, and the heap has that page for the arena.
            allocator.allocate(1000)
            allocator.adopt([small_plan([(1000, 0)])], PAGE)
        allocator.reset_peaks()
        allocator.allocate(30 * PAGE)
    assert still.figures().moved_bytes == 0
    assert shadow_bytes(still) == (230 + is_beside) * PAGE
    assert still.figures().reserved_bytes == 230 * PAGE
    assert moving.figures().moved_bytes > 0
    assert moving.figures().reserved_bytes <= moving.figures().live_peak * 257 // 256 + 4 * PAGE


@pytest.mark.parametrize("share", [0.0, math.inf])
@pytest.mark.parametrize("others", [0, 150], ids=["alone", "beside others"])
def test_on_a_full_device_frames_move_before_memory_is_short(others: int, share: float) -> None:
    memory = SimulatedMemory(PAGE, (200 + others) * PAGE)
    if others:
        memory.create_pages(others * PAGE)
    allocator = fragmented(share, memory)
    allocator.allocate(100 * PAGE)
    figures = allocator.figures()
    assert (figures.moved_bytes, figures.reserved_bytes) == (100 * PAGE, 200 * PAGE)
    allocator.check()
    with pytest.raises(MemoryError):
        allocator.allocate(PAGE)
    assert allocator.figures().requests_above_shadow == 0


@pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])
def test_a_limit_is_a_full_device(is_plain: bool) -> None:
    allocator = PlannedAllocator(LedgerMemory(PAGE, PLENTY), is_plain, share_of_moves=0)
    blocks = [allocator.allocate(10 * PAGE) for _ in range(4)]
    held = allocator.figures().reserved_bytes
    allocator.limit(held + 2 * PAGE)
    for block in blocks[::2]:
        allocator.free(block)
    allocator.allocate(20 * PAGE)
    assert allocator.figures().moved_bytes == (0 if is_plain else 18 * PAGE)
    with pytest.raises(MemoryError, match=f"may reserve {held + 2 * PAGE} bytes here"):
        allocator.allocate(12 * PAGE)
    assert allocator.figures().reserved_bytes <= held
    allocator.limit(held + 20 * PAGE)
    allocator.allocate(12 * PAGE)
    allocator.check()


def test_a_request_that_fails_leaves_no_idle_memory() -> None:
    allocator = PlannedAllocator(LedgerMemory(PAGE, 20 * PAGE))
    allocator.allocate(PAGE)
    with pytest.raises(MemoryError):
        allocator.allocate(20 * PAGE)
    assert allocator.figures().reserved_bytes == PAGE


def test_requests_above_the_shadow_are_counted() -> None:
    # Two streams' small blocks lie in a page each, as PyTorch's do; a tag has a page more.
    allocator = PlannedAllocator(LedgerMemory(PAGE, PLENTY))
    allocator.allocate(1000)
    allocator.allocate(1000, 1)
    assert allocator.figures().requests_above_shadow == 0
    allocator.set_tag("weights")
    for _ in range(3):
        allocator.allocate(1000)
    figures = allocator.figures()
    assert (figures.reserved_bytes, shadow_bytes(allocator)) == (3 * PAGE, 2 * PAGE)
    assert figures.requests_above_shadow == 3
    allocator.reset_peaks()
    assert allocator.figures().requests_above_shadow == 0
