"""The heap that has every block, over memory with real bytes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from gpu_runtime._core import BLOCK_ALIGNMENT, CountingMemory, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.small_plans import small_plan
from tests.gpu_runtime.core.stamped_blocks import Block, StampedBlocks
from tests.slow import one_by_one

pytestmark = pytest.mark.core

PAGE = 8192
FRAME = 4 * PAGE  # which comes and goes as a whole
PLENTY = 1 << 30
SEGMENT = 20 << 20  # what PyTorch reserves for a request of up to 10 MiB

plain_or_not = pytest.mark.parametrize("is_plain", [False, True], ids=["mapped", "plain"])


def heap_over(memory: SimulatedMemory, is_plain: bool = False) -> StampedBlocks:
    return StampedBlocks(PlannedAllocator(memory, is_plain))


def pages_of(blocks: list[Block]) -> int:
    """Return the bytes of all pages that hold part of a block."""
    held = {
        page for block in blocks for page in range(block.address // PAGE, -(-block.end // PAGE))
    }
    return len(held) * PAGE


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


def test_blocks_of_whole_pages_share_no_page_and_leave_their_range_to_all() -> None:
    heap = heap_over(SimulatedMemory(PAGE, PLENTY))
    wholes = []
    for _ in range(3):
        heap.allocate(PAGE // 2)
        wholes.append(heap.allocate(3 * PAGE))
    assert [block.address % PAGE for block in wholes] == [0, 0, 0]
    heap.free(wholes[1])
    assert heap.allocate(PAGE + 512).address == wholes[1].address


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0)])
def test_neighbours_that_are_free_are_one_hole(order: tuple[int, ...]) -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    blocks = [heap.allocate(PAGE) for _ in range(3)]
    for at in order:
        heap.free(blocks[at])
    assert heap.allocate(3 * PAGE).address == blocks[0].address
    assert memory.created_bytes == 3 * PAGE


def test_giving_back_leaves_the_frames_that_hold_something() -> None:
    # | a | b b b b | c |    b has a frame and four pages
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    heap.allocate(PAGE)
    middle = heap.allocate(FRAME + 4 * PAGE)
    heap.allocate(PAGE)
    heap.free(middle)
    kept = heap.allocate(BLOCK_ALIGNMENT)
    heap.allocator.give_back()
    heap.check_all()
    assert kept.address == middle.address
    assert memory.created_bytes == memory.mapped_bytes == 3 * PAGE
    heap.free(kept)
    heap.allocator.give_back()
    heap.check_all()
    assert memory.created_bytes == memory.mapped_bytes == 2 * PAGE
    assert heap.allocator.figures().reserved_peak == FRAME + 6 * PAGE


def test_blocks_that_outlive_a_first_step_lie_together() -> None:
    # A best fit would put what stays into the holes between what goes.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    escaping = []
    for _ in range(2):
        heap.allocator.begin_step()
        passing = [heap.allocate(PAGE // 2 + 1) for _ in range(40)]
        escaping += [heap.allocate(PAGE // 4) for _ in range(16)]
        for block in passing:
            heap.free(block)
        heap.allocator.end_step()
    heap.check_all()
    heap.allocator.give_back()
    # Of each step, four pages and perhaps a part of one at either end; apart they would hold 32.
    assert memory.created_bytes == memory.mapped_bytes == pages_of(escaping) <= 2 * 6 * PAGE


@one_by_one("seed", range(6), first=2)
def test_memory_stays_within_its_bound(seed: int) -> None:
    """What is reserved is little more than ever lived, whatever sizes come in whatever order.

    Blocks of one to sixteen frames keep a part of a frame at either end from moving.
    """
    random = Random(seed)
    memory = SimulatedMemory(4096, PLENTY)
    allocator = PlannedAllocator(memory)
    live: list[tuple[int, int]] = []
    size = peak = 0
    scale = 1.0
    for turn in range(6000):
        if turn % 500 == 0:
            scale = random.choice((0.2, 0.5, 1.0, 2.0))
        if live and (size > 4000 * 4096 or random.random() < 0.48):
            address, bytes_ = live.pop(random.randrange(len(live)))
            allocator.free(address)
            size -= bytes_
        else:
            wanted = int(scale * 4096 * 2 ** random.uniform(4, 7))
            live.append((allocator.allocate(wanted), wanted))
            size += wanted
            peak = max(peak, allocator.figures().allocated_peak)
            assert memory.created_bytes <= peak * 7 // 6 + 4 * 16 * 4096
    allocator.check()
    assert allocator.figures().moved_bytes > 0


@plain_or_not
def test_a_failed_request_raises_and_keeps_nothing(is_plain: bool) -> None:
    memory = SimulatedMemory(PAGE, 20 * PAGE)
    heap = heap_over(memory, is_plain)
    kept = heap.allocate(PAGE)
    before = memory.created_bytes
    with pytest.raises(MemoryError, match=r"^no physical memory of \d+ bytes"):
        heap.allocator.allocate(20 * PAGE)
    heap.check_all()
    assert memory.created_bytes == heap.allocator.figures().reserved_bytes == before
    heap.free(kept)
    # A plain allocation has whole frames.
    size = FRAME if is_plain else 20 * PAGE
    assert heap.allocate(size).bytes == size
    heap.check_all()


def test_much_that_cannot_be_had_is_not_begun_with() -> None:
    memory = SimulatedMemory(PAGE, 1000 * PAGE)
    heap = heap_over(memory)
    heap.allocate(PAGE)
    before = memory.calls
    with pytest.raises(MemoryError, match=r"8183808 bytes are free"):
        heap.allocator.allocate(1000 * PAGE)
    with pytest.raises(MemoryError, match=r"8183808 bytes are free"):
        heap.allocator.adopt([small_plan([(PAGE, 0)])], 1000 * PAGE)
    assert memory.calls < before + 20, "not a call for each page"
    assert heap.allocate(999 * PAGE).bytes == 999 * PAGE
    heap.check_all()


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_before_memory_is_short_everything_free_is_given_back(inside: bool) -> None:
    # Stream 1 has freed pages, stream 2 uses some of them still; both are what stream 3 needs.
    memory = SimulatedMemory(PAGE, 10 * PAGE)
    heap = heap_over(memory)
    if inside:
        heap.allocator.begin_step()
    first, second = heap.allocate(5 * PAGE, 1), heap.allocate(5 * PAGE, 1)
    memory.submit(2, second.address, second.bytes)
    heap.allocator.use_on(second.address, 2)
    heap.free(first)
    heap.free(second)
    block = heap.allocate(10 * PAGE, 3)
    heap.check_all()
    assert memory.live_events == 0
    assert memory.created_bytes == 10 * PAGE
    heap.free(block)


@plain_or_not
def test_before_memory_is_short_an_idle_arena_is_given_back(is_plain: bool) -> None:
    memory = SimulatedMemory(SEGMENT // 4, 2 * SEGMENT)
    heap = heap_over(memory, is_plain)
    arena = SEGMENT + SEGMENT // 2
    heap.allocator.adopt([small_plan([(arena, 0)])], arena)
    heap.allocator.begin_step()
    memory.submit(0)  # no memory may disappear while this runs
    heap.free(heap.allocate(arena))
    # Of another stream: it does not get what the first one used.
    block = heap.allocate(SEGMENT + SEGMENT // 4, 1)
    heap.check_all()
    assert heap.allocator.figures().arena_bytes < SEGMENT
    assert heap.allocator.end_step().planned == 1
    heap.free(block)
    heap.allocator.give_back()
    # It is back for the next step.
    heap.allocator.begin_step()
    heap.allocate(arena)
    assert heap.allocator.figures().arena_bytes == arena
    heap.check_all()
    assert heap.allocator.end_step().planned == 1


def test_an_arena_that_lost_its_beginning_is_filled_again() -> None:
    # | . . . . | live |
    memory = SimulatedMemory(SEGMENT // 4, 5 * SEGMENT)
    heap = heap_over(memory)
    heap.allocator.adopt([small_plan([(4 * SEGMENT, 0), (SEGMENT, 4 * SEGMENT)])], 5 * SEGMENT)
    heap.allocator.begin_step()
    first = heap.allocate(4 * SEGMENT)
    live = heap.allocate(SEGMENT)
    heap.free(first)
    heap.allocator.end_step()
    large = heap.allocate(4 * SEGMENT, 1)
    assert heap.allocator.figures().arena_bytes == SEGMENT
    heap.free(large)
    heap.allocator.give_back()
    heap.allocator.begin_step()
    assert heap.allocate(4 * SEGMENT).address == live.address - 4 * SEGMENT
    heap.allocator.end_step()
    heap.check_all()


def test_idle_pieces_of_the_arena_join_for_requests_without_place() -> None:
    # | . . . . a . . . . |    the second request lies everywhere, the third in the first half
    page = 2 << 20  # so that PyTorch's allocator fits as well
    memory = SimulatedMemory(page, 12 * page)
    heap = heap_over(memory)
    sizes = [1000, 10 * page, 3 * page]
    offsets = [5 * page, 0, 0]
    kind = small_plan(list(zip(sizes, offsets, strict=True)))
    heap.allocator.adopt([kind], 10 * page)
    places = []
    for step in range(3):
        heap.allocator.begin_step()
        held = heap.allocate(sizes[0])
        if step != 1:
            heap.free(held)
        whole = heap.allocate(sizes[1])
        memory.submit(0)  # pages may not disappear while this runs
        heap.free(whole)
        if step == 1:
            heap.free(held)
        part = heap.allocate(sizes[2])
        heap.free(part)
        heap.check_all()
        end = heap.allocator.end_step()
        places.append((held.address, whole.address, part.address))
        # The frames that moved come back once the stream is done with them.
        memory.finish(0)
        assert (end.planned, end.unexpected) == ((1, 2) if step == 1 else (3, 0))
        assert heap.allocator.figures().reserved_peak <= 12 * page
    begin = places[0][0] - offsets[0]
    assert places[0] == places[2] == tuple(begin + offset for offset in offsets)
    # The step whose second place is occupied leaves its plan.
    assert (places[1][0], places[1][2]) == (places[0][0], places[1][1])
    assert not begin <= places[1][1] < begin + 10 * page


def test_an_arena_gets_no_memory_that_is_needed_elsewhere_yet() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    heap.allocator.begin_step()
    elsewhere = heap.allocate(60 * FRAME)
    heap.free(heap.allocate(40 * FRAME))
    heap.allocator.end_step()
    heap.allocator.adopt([small_plan([(40 * FRAME, 60 * FRAME)])], 100 * FRAME)
    for _ in range(2):
        assert memory.created_bytes <= 142 * FRAME
        heap.allocator.begin_step()
        planned = heap.allocate(40 * FRAME)
        heap.check_all()
        heap.free(planned)
        assert heap.allocator.end_step().planned == 1
    heap.free(elsewhere)
    heap.allocator.begin_step()
    heap.allocator.end_step()
    assert heap.allocator.figures().arena_bytes == 100 * FRAME
    assert memory.created_bytes <= 102 * FRAME


def test_an_arena_that_has_its_memory_waits_for_nobody() -> None:
    counted = CountingMemory(SimulatedMemory(PAGE, PLENTY))
    heap = StampedBlocks(PlannedAllocator(counted))
    heap.allocator.adopt([small_plan([(100 * FRAME, 0)])], 100 * FRAME)
    heap.allocator.begin_step()
    heap.free(heap.allocate(100 * FRAME))
    heap.allocator.end_step()
    waited, mapped = counted.calls.synchronize, counted.calls.map
    heap.allocator.adopt([small_plan([(60 * FRAME, 40 * FRAME)])], 100 * FRAME)
    assert (counted.calls.synchronize, counted.calls.map) == (waited, mapped)
    # A block that is larger than the arena takes its frames; they come back without a wait as well.
    heap.free(heap.allocate(110 * FRAME))
    mapped = counted.calls.map
    heap.allocator.adopt([small_plan([(110 * FRAME, 0)])], 110 * FRAME)
    assert counted.calls.map > mapped
    assert counted.calls.synchronize == waited
    heap.check_all()


def test_the_arena_of_a_dropped_plan_is_given_back_when_its_last_block_goes() -> None:
    memory = SimulatedMemory(PAGE, 10 * PAGE)
    heap = heap_over(memory)
    heap.allocator.adopt([small_plan([(6 * PAGE, 0)])], 6 * PAGE)
    heap.allocator.begin_step()
    held = heap.allocate(6 * PAGE)
    heap.allocator.end_step()
    heap.allocator.adopt([], 0)
    with pytest.raises(MemoryError):
        heap.allocator.allocate(8 * PAGE)
    heap.check_all()
    memory.submit(0)  # a page may not disappear while this runs
    heap.free(held)
    heap.allocate(8 * PAGE)
    heap.check_all()
    assert memory.created_bytes == heap.allocator.figures().reserved_bytes == 8 * PAGE


def test_streams_without_end_get_memory() -> None:
    # A range of addresses for each would be more than there are.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = StampedBlocks(PlannedAllocator(memory, share_of_moves=0))
    for stream in range(3000):
        block = heap.allocate(1000, stream)
        if stream % 2:
            heap.free(block)
    heap.check_all()
    assert memory.reserved_ranges == 3000


def test_nothing_is_asked_for() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    allocator = PlannedAllocator(memory)
    assert allocator.allocate(0) == 0
    assert not allocator.free(0)
    assert not allocator.use_on(0, 1)
    assert memory.calls == 0


@pytest.mark.parametrize(
    "size",
    [1 << 40, (1 << 48) + 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 511, (1 << 64) - 1],
)
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_sizes_that_no_device_has_are_refused(size: int, inside: bool) -> None:
    memory = SimulatedMemory(PAGE, 8 * PAGE)
    heap = heap_over(memory)
    heap.allocate(100)
    if inside:
        heap.allocator.begin_step()
    with pytest.raises(MemoryError, match=r"no device has as much|57344 bytes are free"):
        heap.allocator.allocate(size)
    heap.allocate(100)
    heap.check_all()
    # In order, the next block may lie in the range that was reserved in vain.
    assert memory.created_bytes <= 2 * PAGE


@pytest.mark.parametrize("size", [(1 << 48) + 512, 1 << 62, (1 << 64) - 1])
def test_an_arena_that_no_device_has_is_refused(size: int) -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, 8 * PAGE))
    with pytest.raises(MemoryError, match="no device has as much"):
        allocator.adopt([], size)
    assert allocator.figures().arena_bytes == 0


def test_other_addresses_are_not_freed() -> None:
    heap = heap_over(SimulatedMemory(PAGE, PLENTY))
    block, other = heap.allocate(2000), heap.allocate(2000)
    for address in (1, block.address + 1, block.address + 512, other.end, (1 << 64) - 1):
        assert not heap.allocator.free(address)
        assert not heap.allocator.use_on(address, 3)
    heap.check_all()
    heap.free(block)
    assert not heap.allocator.free(block.address)
    assert not heap.allocator.use_on(block.address, 3)
    heap.check_all()
    assert heap.allocate(2000).address == block.address
    assert heap.allocate(2000).address not in (block.address, other.address)
    assert heap.allocator.figures().refused_frees == 0


def test_live_blocks_of_a_replaced_plain_arena_are_not_idle() -> None:
    # As often as idle memory goes back at once, and then some.
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory, is_plain=True)
    heap.allocator.adopt([small_plan([(8 * FRAME, 0)])], 8 * FRAME)
    heap.allocator.begin_step()
    heap.allocate(8 * FRAME)
    heap.allocator.end_step()
    heap.allocator.adopt([small_plan([(FRAME, 0)])], 9 * FRAME)
    # More than the arena has.
    size = 10 * FRAME
    unknown = [heap.allocate(size) for _ in range(4)]
    for _ in range(20):
        heap.allocator.begin_step()
        heap.free(unknown.pop())
        unknown.append(heap.allocate(size, 3))
        heap.allocator.end_step()
    heap.check_all()
    for block in unknown:
        heap.free(block)
    before = memory.created_bytes
    heap.allocator.give_back()
    assert memory.created_bytes < before


def test_simulated_work_ends_at_an_address() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    memory.submit(0, (1 << 64) - 512, 511)
    with pytest.raises(ValueError, match="work ends at an address, found 512 bytes at 184467"):
        memory.submit(0, (1 << 64) - 512, 512)


def test_a_growing_range_keeps_its_frames() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    allocator = PlannedAllocator(memory)
    elsewhere = allocator.allocate(50 * PAGE, 0)
    allocator.allocate(100 * PAGE, 0)
    at_the_end = allocator.allocate(100 * PAGE, 0)
    allocator.free(elsewhere)
    allocator.free(at_the_end)
    # 60 pages are missing behind the largest range, and 50 lie idle before.
    allocator.allocate(160 * PAGE, 0)
    assert allocator.figures().moved_bytes == 50 * PAGE
    assert memory.created_bytes == 260 * PAGE


def test_a_request_goes_where_least_is_missing() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    frames = [heap.allocate(FRAME) for _ in range(16)]
    for frame in frames[::2]:
        heap.free(frame)
    # Four idle frames leave holes between the others, which go next.
    at_the_end = heap.allocate(4 * FRAME)
    # The old mappings go, since nothing else is idle.
    heap.allocator.give_back()
    for frame in frames[1::2]:
        heap.free(frame)
    moved = heap.allocator.figures().moved_bytes
    assert moved == 4 * FRAME
    # [ 12 frames and 4 holes ][ at the end ][ hole ...
    between = heap.allocate(16 * FRAME)
    assert between.address < at_the_end.address
    assert memory.created_bytes == 20 * FRAME
    heap.free(between)
    heap.allocator.give_back()
    heap.free(at_the_end)
    # [ hole of 16 frames ][ 4 frames ][ hole ...: the first hole is as good as the last.
    heap.free(heap.allocate(20 * FRAME))
    assert memory.created_bytes == 20 * FRAME
    heap.check_all()
    # [ 20 frames ][ hole ...: all the way to where it grows.
    heap.allocate(21 * FRAME)
    heap.allocate(FRAME)
    heap.check_all()
    assert memory.created_bytes == 22 * FRAME
    assert heap.allocator.figures().moved_bytes == moved


def test_a_request_begins_where_least_is_missing_behind() -> None:
    memory = SimulatedMemory(PAGE, PLENTY)
    heap = heap_over(memory)
    first, second, third, behind = (heap.allocate(pages * FRAME) for pages in (16, 4, 2, 1))
    heap.free(first)
    heap.free(third)
    heap.allocator.give_back()
    heap.free(second)
    # [ hole of 16 frames ][ 4 frames ][ hole of 2 ][ behind ][ hole ...
    found = heap.allocate(6 * FRAME)
    assert found.address == second.address
    assert memory.created_bytes == 7 * FRAME
    heap.free(found)
    heap.allocator.give_back()
    heap.free(behind)
    # [ hole of 22 frames ][ 1 frame ][ hole ...: as much is missing from the frame on.
    assert heap.allocate(24 * FRAME).address == behind.address
    heap.check_all()
    heap.allocate(FRAME)
    heap.check_all()
    assert memory.created_bytes == 25 * FRAME
    assert heap.allocator.figures().moved_bytes == 0


def test_a_first_step_of_many_microbatches_hardly_moves() -> None:
    random = Random(1)
    allocator = PlannedAllocator(SimulatedMemory(PAGE, PLENTY))
    allocator.begin_step()
    gradients: list[int] = []
    for _ in range(40):
        activations = [allocator.allocate(random.randint(1, 24 * PAGE), 0) for _ in range(150)]
        random.shuffle(activations)
        while activations:
            allocator.free(activations.pop())
            if random.random() < 0.1:
                gradients.append(allocator.allocate(random.randint(1, PAGE), 0))
            elif gradients and random.random() < 0.1:
                allocator.free(gradients.pop(random.randrange(len(gradients))))
    figures = allocator.figures()
    assert figures.reserved_peak <= figures.live_peak * 33 / 32
    assert figures.moved_bytes <= 2 * figures.live_peak


def test_the_peak_of_reserved_bytes_counts_from_the_last_reset() -> None:
    allocator = PlannedAllocator(SimulatedMemory(PAGE, PLENTY))
    for pages in (8, 16, 2):
        allocator.reset_peaks()
        allocator.free(allocator.allocate(pages * PAGE, 0))
        allocator.give_back()
        assert allocator.figures().reserved_peak == pages * PAGE
    allocator.reset_peaks()
    assert allocator.figures().reserved_peak == 0


def test_frames_that_move_in_every_step_return_to_their_old_mappings() -> None:
    counted = CountingMemory(SimulatedMemory(PAGE, PLENTY))
    allocator = PlannedAllocator(counted)
    allocator.allocate(3000 * PAGE, 0)
    moved, mapped = [0], [0]
    for _ in range(14):
        allocator.begin_step()
        # Each stream needs the pages that the other one leaves idle.
        for stream in (1, 2):
            allocator.free(allocator.allocate(40 * PAGE, stream))
        allocator.end_step()
        allocator.check()
        moved.append(allocator.figures().moved_bytes)
        mapped.append(counted.calls.map)
    moves = [after - before for before, after in pairwise(moved)]
    maps = [after - before for before, after in pairwise(mapped)]
    assert all(moves)
    assert not any(maps[4:]), "old mappings are used again"
    assert counted.calls.synchronize == counted.calls.unmap == 0
    figures = allocator.figures()
    assert figures.reserved_peak <= figures.live_peak * 257 / 256 + 4 * PAGE


def test_frames_side_by_side_are_opened_and_unmapped_by_one_call() -> None:
    counted = CountingMemory(SimulatedMemory(PAGE, PLENTY))
    allocator = PlannedAllocator(counted)
    allocator.begin_step()
    allocator.free(allocator.allocate(5 * PAGE, 0))
    allocator.end_step()
    allocator.give_back()
    calls = counted.calls
    assert (calls.create_pages, calls.map, calls.set_access) == (5, 5, 1)
    assert (calls.unmap, calls.release_pages) == (1, 5)
    allocator.check()
