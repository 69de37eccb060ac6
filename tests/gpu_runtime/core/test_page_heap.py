"""The heap that serves whatever no plan serves, over memory with real bytes."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import BLOCK_ALIGNMENT, PlannedAllocator, SimulatedMemory, StepMode
from tests.gpu_runtime.core.small_plans import stream_plan
from tests.gpu_runtime.core.stamped_blocks import Block, StampedBlocks
from tests.slow import one_by_one

pytestmark = pytest.mark.core

PAGE = 8192
PLENTY = 1 << 30


def heap_over(memory: SimulatedMemory) -> StampedBlocks:
    return StampedBlocks(PlannedAllocator(memory))


def random_size(random: Random) -> int:
    """Return a size from one byte to several pages, often at the edge of a rule."""
    kind = random.random()
    if kind < 0.4:
        return random.randint(1, 3 * BLOCK_ALIGNMENT)
    if kind < 0.6:
        return random.randint(1, 20) * BLOCK_ALIGNMENT + random.randint(-1, 1)
    if kind < 0.9:
        return random.randint(1, PAGE)
    return random.choice((PAGE, 2 * PAGE, 7 * PAGE - 1, 7 * PAGE + 1, random.randint(1, 20 * PAGE)))


def pages_of(blocks: list[Block]) -> int:
    """Return the bytes of all pages that hold part of a block."""
    held = {
        page for block in blocks for page in range(block.address // PAGE, -(-block.end // PAGE))
    }
    return len(held) * PAGE


@pytest.mark.parametrize("mode", [StepMode.UNPLANNED, StepMode.PROFILED], ids=["outside", "inside"])
@one_by_one("seed", range(4), first=1)
def test_no_byte_is_lost(seed: int, mode: StepMode) -> None:
    random = Random(seed)
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    ever: dict[int, set[int]] = {stream: set() for stream in range(4)}
    heap.allocator.begin_step(mode)
    for turn in range(6000):
        crowded = len(heap.live) > random.choice((20, 200, 400))
        if heap.live and (crowded or random.random() < 0.4):
            heap.free(random.choice(list(heap.live.values())))
        else:
            block = heap.allocate(random_size(random), random.randrange(4))
            ever[block.stream].update(range(block.address, block.end, BLOCK_ALIGNMENT))
        if random.random() < 0.001:
            heap.allocator.give_back()
            assert memory.created_bytes == pages_of(list(heap.live.values()))
        if turn % 200 == 0:
            heap.check_all()
            assert heap.allocator.figures().reserved_bytes == memory.created_bytes
    heap.check_all()
    for stream, other in ((a, b) for a in ever for b in ever if a < b):
        assert not ever[stream] & ever[other], "addresses belong to one stream"
    heap.allocator.end_step()
    heap.free_all()
    heap.allocator.give_back()
    heap.allocator.check()
    assert memory.created_bytes == memory.mapped_bytes == 0
    assert heap.allocator.figures().reserved_bytes == 0


@one_by_one("seed", range(4), first=1)
def test_what_other_streams_use_comes_back_when_they_are_done(seed: int) -> None:
    random = Random(seed)
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    at_work: set[int] = set()
    busy: dict[int, list[Block]] = {stream: [] for stream in range(4)}  # freed, still in use
    used: dict[Block, set[int]] = {}
    came_back = 0
    for _ in range(5000):
        kind = random.random()
        if kind < 0.45:
            block = heap.allocate(random_size(random), random.randrange(4))
            assert not any(block.overlaps(other) for stream in busy.values() for other in stream)
            used[block] = set()
        elif kind < 0.6 and heap.live:
            block = random.choice(list(heap.live.values()))
            stream = random.randrange(4)
            memory.submit(stream)
            at_work.add(stream)
            heap.allocator.use_on(block.address, stream)
            used[block].add(stream)
        elif kind < 0.95 and heap.live:
            block = random.choice(list(heap.live.values()))
            heap.free(block)
            for stream in used.pop(block) & at_work - {block.stream}:
                busy[stream].append(block)
        else:
            stream = random.randrange(4)
            memory.finish(stream)
            at_work.discard(stream)
            came_back += len(busy[stream])
            busy[stream].clear()
        if random.random() < 0.01:
            heap.check_all()
    assert came_back > 100
    heap.free_all()
    heap.allocator.give_back()
    assert memory.created_bytes == memory.live_events == 0


def test_bytes_that_another_stream_used_are_used_again_after_it_finished() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    block = heap.allocate(1000)
    memory.submit(7)
    heap.allocator.use_on(block.address, 7)
    heap.allocator.use_on(block.address, 7)
    heap.free(block)
    assert memory.live_events == 1, "a stream is awaited once"
    memory.submit(7)
    assert heap.allocate(1000).address != block.address
    memory.finish(7)
    assert heap.allocate(1000).address == block.address
    assert memory.live_events == 0


def test_of_the_blocks_that_wait_for_a_stream_only_the_first_is_asked_about() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    blocks = [heap.allocate(PAGE) for _ in range(100)]
    for block in blocks:
        for stream in (7, 8):
            memory.submit(stream)
            heap.allocator.use_on(block.address, stream)
        heap.free(block)
    heap.free(heap.allocate(PAGE))
    before = memory.calls
    heap.allocate(PAGE)
    assert memory.calls == before + 2, "a question about each stream"
    memory.finish(7)
    heap.allocate(1)
    assert memory.live_events == 100, "another stream is done"
    memory.finish(8)
    assert heap.allocate(100 * PAGE).address == blocks[0].address
    assert memory.live_events == 0


@pytest.mark.parametrize("recorded", [0, 1], ids=["no event", "one event"])
def test_a_block_whose_use_is_not_recorded_is_withheld(recorded: int) -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    block, neighbour = heap.allocate(1000), heap.allocate(1000)
    for stream in (7, 8):
        memory.submit(stream)
        heap.allocator.use_on(block.address, stream)
    memory.fail_after(recorded)
    heap.free(block)
    assert heap.allocator.figures().refused_frees == 1
    memory.finish(7)
    assert heap.allocate(1000).address > neighbour.address
    # Only the end of all work tells.
    heap.allocator.give_back()
    assert heap.allocate(1000).address == block.address
    assert memory.live_events == 0


def test_use_on_its_own_stream_holds_nothing_back() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    block = heap.allocate(1000, 3)
    memory.submit(3)
    heap.allocator.use_on(block.address, 3)
    heap.free(block)
    assert heap.allocate(1000, 3).address == block.address
    assert memory.live_events == 0


def test_the_smallest_hole_that_fits_is_used() -> None:
    heap = heap_over(SimulatedMemory(PAGE, PLENTY))
    holes = {}
    for blocks in (5, 2, 3, 7):
        holes[blocks] = heap.allocate(blocks * BLOCK_ALIGNMENT)
        heap.allocate(BLOCK_ALIGNMENT)
    for hole in holes.values():
        heap.free(hole)
    for asked, expected in ((3, 3), (1, 2), (3, 5), (6, 7)):
        found = heap.allocate(asked * BLOCK_ALIGNMENT)
        assert found.address == holes[expected].address


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_neighbours_that_are_free_are_one_hole(order: tuple[int, ...]) -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    blocks = [heap.allocate(PAGE) for _ in range(3)]
    for at in order:
        heap.free(blocks[at])
    assert heap.allocate(3 * PAGE).address == blocks[0].address
    assert memory.created_bytes == 3 * PAGE


def test_what_one_stream_freed_is_not_given_to_another() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    block = heap.allocate(PAGE, 1)
    heap.free(block)
    assert heap.allocate(PAGE, 2).address != block.address
    assert heap.allocate(PAGE, 1).address == block.address


def test_giving_back_leaves_the_pages_that_hold_something() -> None:
    # | a | b b b b b | c |    b has two pages, and a part of those of a and c
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    heap.allocate(PAGE // 2 - BLOCK_ALIGNMENT)
    middle = heap.allocate(3 * PAGE + BLOCK_ALIGNMENT)
    heap.allocate(PAGE // 2 - BLOCK_ALIGNMENT)
    heap.free(middle)
    heap.allocator.give_back()
    heap.check_all()
    assert memory.created_bytes == memory.mapped_bytes == 2 * PAGE
    assert heap.allocator.figures().reserved_bytes == 2 * PAGE
    assert heap.allocator.figures().reserved_peak == 4 * PAGE


def test_what_outlives_a_profiled_step_lies_together() -> None:
    # Each step makes many blocks that go and one that stays. A best fit would put those that stay
    # into the holes; in order, the idle pages between move along and are no more than a sixteenth.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    escaping = []
    most = 0
    for _ in range(30):
        heap.allocator.begin_step(StepMode.PROFILED)
        passing = [heap.allocate(PAGE // 2 + 1) for _ in range(40)]
        escaping += [heap.allocate(PAGE // 4) for _ in range(16)]
        most = max(most, memory.created_bytes - pages_of(list(heap.live.values())))
        for block in passing:
            heap.free(block)
        heap.allocator.end_step()
    heap.check_all()
    assert most <= (23 + 30 * 4) * PAGE // 16 + 24 * PAGE
    heap.allocator.give_back()
    # Of each step, four pages and perhaps a part of one at either end.
    assert memory.created_bytes == pages_of(escaping) <= 30 * 5 * PAGE
    assert memory.created_bytes == memory.mapped_bytes


def test_a_profiled_step_takes_idle_pages_along() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    heap.allocator.begin_step(StepMode.PROFILED)
    addresses = set()
    for _ in range(1000):
        block = heap.allocate(PAGE + 1)
        addresses.add(block.address)
        memory.submit(0)  # pages may not disappear while this runs
        heap.allocate(1)
        heap.free(block)
    assert len(addresses) == 1000, "no address is used twice"
    live = pages_of(list(heap.live.values()))
    assert memory.created_bytes <= live * 17 // 16 + 3 * PAGE


def test_whole_pages_and_halves_share_no_page_with_others() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    others, kept = [], []
    for _ in range(6):
        others.append(heap.allocate(700))
        kept += [heap.allocate(2 * PAGE), heap.allocate(PAGE // 2)]
    assert all(block.address % (PAGE // 2) == 0 for block in kept)
    for block in others:
        heap.free(block)
    heap.allocator.give_back()
    heap.check_all()
    assert memory.created_bytes == sum(block.bytes for block in kept)


def test_out_of_memory_is_said_as_pytorch_says_it_and_nothing_is_kept() -> None:
    memory = SimulatedMemory(PAGE, 10 * PAGE)
    heap = heap_over(memory)
    kept = heap.allocate(PAGE)
    with pytest.raises(MemoryError, match=r"^CUDA out of memory\. Tried to allocate 81920 bytes"):
        heap.allocator.allocate(10 * PAGE)
    heap.check_all()
    assert memory.created_bytes == heap.allocator.figures().reserved_bytes == PAGE
    heap.free(kept)
    assert heap.allocate(10 * PAGE).bytes == 10 * PAGE
    heap.check_all()


def test_much_that_cannot_be_had_is_not_begun_with() -> None:
    memory = SimulatedMemory(PAGE, 1000 * PAGE)
    heap = heap_over(memory)
    heap.allocate(PAGE)
    before = memory.calls
    with pytest.raises(MemoryError, match=r"8183808 bytes are free"):
        heap.allocator.allocate(1000 * PAGE)
    assert memory.calls < before + 10, "not a call for each page"
    assert heap.allocate(999 * PAGE).bytes == 999 * PAGE
    heap.check_all()


@pytest.mark.parametrize("mode", [StepMode.UNPLANNED, StepMode.PROFILED], ids=["outside", "inside"])
def test_before_memory_is_short_everything_free_is_given_back(mode: StepMode) -> None:
    # Stream 1 has freed pages, stream 2 uses some of them still; both are what stream 3 needs.
    memory = SimulatedMemory(PAGE, 10 * PAGE)
    heap = heap_over(memory)
    heap.allocator.begin_step(mode)
    first, second = heap.allocate(5 * PAGE, 1), heap.allocate(5 * PAGE, 1)
    memory.submit(2)
    heap.allocator.use_on(second.address, 2)
    heap.free(first)
    heap.free(second)
    block = heap.allocate(10 * PAGE, 3)
    heap.check_all()
    assert memory.live_events == 0
    assert memory.created_bytes == 10 * PAGE
    heap.free(block)


def test_before_memory_is_short_the_arena_of_a_dropped_plan_is_given_back() -> None:
    memory = SimulatedMemory(PAGE, 10 * PAGE)
    heap = heap_over(memory)
    heap.allocator.adopt_plan([stream_plan(0, [(6 * PAGE, 0)])], 6 * PAGE)
    heap.allocator.begin_step(StepMode.PLANNED)
    held = heap.allocate(6 * PAGE)
    heap.allocator.end_step()
    heap.allocator.drop_plan()
    with pytest.raises(MemoryError, match=r"0 reserved by the heap"):
        heap.allocator.allocate(8 * PAGE)
    heap.check_all()
    memory.submit(0)  # a page may not disappear while this runs
    heap.free(held)
    with pytest.raises(MemoryError):
        heap.allocator.allocate(1 << 50)
    heap.allocate(8 * PAGE)
    heap.check_all()
    assert memory.created_bytes == heap.allocator.figures().reserved_bytes == 8 * PAGE


def test_giving_back_leaves_nothing_of_an_arena_in_the_heap() -> None:
    # The arena's last block lies in a page of the heap's, before the other block there.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    first, other = heap.allocate(PAGE // 2), heap.allocate(PAGE // 2)
    heap.free(first)
    arena = PAGE + BLOCK_ALIGNMENT
    heap.allocator.adopt_plan([stream_plan(0, [(arena, 0)])], arena)
    assert heap.allocator.figures().arena_bytes == PAGE
    heap.allocator.begin_step(StepMode.PLANNED)
    held = heap.allocate(arena)
    heap.allocator.end_step()
    heap.allocator.drop_plan()
    heap.free(other)
    heap.free(held)
    heap.allocator.give_back()
    heap.check_all()
    assert memory.created_bytes == memory.mapped_bytes == 0


def test_ranges_of_addresses_that_lie_side_by_side_stay_apart() -> None:
    # Pages so large that a range of addresses holds four of them.
    page = 16 << 30
    memory = SimulatedMemory(page, 64 * page)
    allocator = PlannedAllocator(memory)
    blocks = [allocator.allocate(page) for _ in range(16)]
    assert memory.reserved_ranges == 4
    neighbours = sum(block + page in blocks for block in blocks)
    assert neighbours > 4 * 3, "also of two ranges"
    for block in blocks[1::2] + blocks[::2]:
        allocator.free(block)
        allocator.check()
    # No range has room for five pages, though they are free in a row.
    again = allocator.allocate(5 * page)
    allocator.check()
    assert memory.reserved_ranges == 5
    allocator.free(again)
    allocator.give_back()
    allocator.check()
    assert memory.created_bytes == memory.mapped_bytes == 0
    assert memory.reserved_ranges == 1


def test_streams_without_end_get_memory() -> None:
    # A range of addresses for each would be more than there are.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    for stream in range(3000):
        block = heap.allocate(1000, stream)
        if stream % 2:
            heap.free(block)
    heap.check_all()
    assert memory.reserved_ranges == 3000


def test_work_in_scarce_memory() -> None:
    random = Random(5)
    memory = SimulatedMemory(PAGE, 40 * PAGE)
    heap = heap_over(memory)
    short = 0
    for turn in range(8000):
        if heap.live and random.random() < 0.45:
            heap.free(random.choice(list(heap.live.values())))
            continue
        live = list(heap.live.values())
        size, stream = random_size(random), random.randrange(3)
        try:
            heap.allocate(size, stream)
        except MemoryError:
            short += 1
            assert memory.created_bytes == pages_of(live)
            assert memory.created_bytes + size > 40 * PAGE - 2 * PAGE, "it did not fit"
        if turn % 100 == 0:
            heap.check_all()
    assert short > 100
    heap.check_all()


def test_nothing_is_asked_for() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    allocator = PlannedAllocator(memory)
    assert allocator.allocate(0) == 0
    allocator.free(0)
    allocator.use_on(0, 1)
    assert memory.calls == 0


@pytest.mark.parametrize(
    "size",
    [1 << 40, (1 << 48) + 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 511, (1 << 64) - 1],
)
@pytest.mark.parametrize("mode", [StepMode.UNPLANNED, StepMode.PROFILED], ids=["outside", "inside"])
def test_sizes_that_no_device_has_are_refused(size: int, mode: StepMode) -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    heap = heap_over(memory)
    heap.allocate(100)
    heap.allocator.begin_step(mode)
    with pytest.raises(MemoryError, match=f"^CUDA out of memory. Tried to allocate {size} bytes"):
        heap.allocator.allocate(size)
    heap.allocate(100)
    heap.check_all()
    # In order, the next block may lie in the range that was reserved in vain.
    assert memory.created_bytes <= 2 * PAGE


@pytest.mark.parametrize("size", [(1 << 48) + 512, 1 << 62, (1 << 64) - 1])
def test_an_arena_that_no_device_has_is_refused(size: int) -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 8 * PAGE))
    with pytest.raises(MemoryError, match="no device has as much"):
        allocator.adopt_plan([], size)
    assert allocator.figures().arena_bytes == 0


def test_what_is_not_a_block_is_not_freed() -> None:
    heap = heap_over(SimulatedMemory(PAGE, PLENTY))
    block, other = heap.allocate(2000), heap.allocate(2000)
    for address in (1, block.address + 1, block.address + 512, other.end, (1 << 64) - 1):
        heap.allocator.free(address)
        heap.allocator.use_on(address, 3)
    heap.check_all()
    heap.free(block)
    heap.allocator.free(block.address)
    heap.allocator.use_on(block.address, 3)
    heap.check_all()
    assert heap.allocate(2000).address == block.address
    assert heap.allocate(2000).address not in (block.address, other.address)
    assert heap.allocator.figures().refused_frees == 0
