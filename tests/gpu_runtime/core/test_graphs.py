"""Captured graphs that never replay at the same time: their addresses and their frames."""

from __future__ import annotations

import math
from random import Random

import pytest

from gpu_runtime._core import CountingMemory, LedgerMemory, PlannedAllocator, SimulatedMemory
from tests.gpu_runtime.core.captured_graphs import BETWEEN, CAPTURED, Captures

pytestmark = pytest.mark.core

PAGE = 4096
LARGE = 2 << 20


def capture_at_random(made: Captures, pool: int, random: Random, *, streams: int = 1) -> None:
    made.begin(pool)
    mine = []
    for _ in range(random.randrange(20, 80)):
        size = round(100 * math.exp(random.uniform(0, 6)))
        mine.append(made.request(size, CAPTURED + random.randrange(streams)))
        while mine and random.random() < 0.45:
            user = CAPTURED + streams if random.random() < 0.1 else None
            made.free(mine.pop(random.randrange(len(mine))), user)
    for block in mine[: round(0.8 * len(mine))]:
        made.free(block)
    made.end()


@pytest.mark.parametrize("seed", range(8))
def test_what_outlives_a_graph_is_written_by_its_own_replays_alone(seed: int) -> None:
    random = Random(seed)
    made = Captures(PAGE)
    for pool in range(1, 9):
        capture_at_random(made, pool, random)
        assert made.reserved <= made.most()
    for graph in made.graphs:
        graph.replay(random)
    for _ in range(40):
        random.choice(made.graphs).replay(random)
        for graph in made.graphs:
            made.check(graph)


@pytest.mark.parametrize("seed", range(8))
def test_graphs_of_one_pool_replay_in_the_order_of_their_captures(seed: int) -> None:
    random = Random(seed)
    made = Captures(PAGE)
    for number in range(9):
        capture_at_random(made, 1 + number % 3, random)
        assert made.reserved <= made.most()
        for block in random.sample(list(made.live.values()), len(made.live) // 4):
            del made.live[block.address]
            made.allocator.free(block.address)
    for _ in range(3):
        for graph in made.graphs:
            graph.replay(random)
        for graph in made.graphs:
            made.check(graph)


@pytest.mark.parametrize("seed", range(8))
def test_streams_of_a_capture_may_run_at_any_pace(seed: int) -> None:
    made = Captures(PAGE)
    random = Random(seed)
    for number in range(6):
        capture_at_random(made, 1 + number % 2, random, streams=2)
    for graph in made.graphs * 4:
        graph.replay(random)
        made.check(graph)


@pytest.mark.parametrize("pages", [1 << 18, 140], ids=["room", "little room"])
@pytest.mark.parametrize("seed", range(8))
def test_work_between_replays_lies_on_the_frames_of_graphs(seed: int, pages: int) -> None:
    random = Random(seed)
    made = Captures(PAGE, pages * PAGE)
    for pool in range(1, 5):
        capture_at_random(made, pool, random)
    graphs = list(made.graphs)
    for graph in graphs:
        graph.replay(random)
    for _ in range(30):
        eager, mine = made.begin_eager(), []
        for _ in range(random.randrange(1, 60)):
            mine.append(made.request(round(100 * math.exp(random.uniform(0, 6)))))
            while mine and random.random() < 0.48:
                block = mine.pop(random.randrange(len(mine)))
                made.check(eager)
                made.free(block, CAPTURED + 1 if random.random() < 0.1 else None)
        for block in mine[random.randrange(4) :]:
            made.free(block)
        made.end_eager()
        for graph in random.sample(graphs, 2):
            graph.replay(random)
        for graph in made.graphs:
            made.check(graph)
        outlived = [block for block in made.live.values() if (CAPTURED, block, True) in eager.work]
        for block in outlived[:2]:
            assert made.allocator.free(made.live.pop(block.address).address)


def test_work_between_replays_lays_its_addresses_out_anew_when_frames_had_to_move() -> None:
    """Prompts of a language model: blocks of layers, then one that needs nearly all memory."""
    counted = CountingMemory(LedgerMemory(LARGE, 1 << 40))
    allocator = PlannedAllocator(counted)
    hidden, calls = 16 << 20, []

    def request(size: int) -> int:
        address = allocator.allocate_in_pool(BETWEEN, size, 0)
        assert address
        return address

    for _ in range(6):
        allocator.lend(BETWEEN)
        assert allocator.begin_pool(BETWEEN)
        state = request(hidden)
        for _ in range(3):
            inner = [request(size * hidden) for size in (1, 3, 1, 1)]
            inner += [request(hidden // 32), request(4 * hidden)]
            raised = request(hidden)
            for block in (*inner, state):
                allocator.free(block)
            state = raised
        scores = request(50 * hidden)
        allocator.free(scores)
        allocator.free(state)
        allocator.end_capture(BETWEEN)
        found = counted.calls
        calls.append((found.map, found.unmap, found.host_waits))
    assert calls[0][1] > 0
    assert calls[2] == calls[5]
    figures = allocator.figures()
    assert figures.reserved_bytes <= figures.graphs.expandable_bytes


def test_equal_work_between_replays_asks_the_device_for_nothing() -> None:
    made = Captures(PAGE)
    made.begin(1)
    made.free(made.request(10 * PAGE))
    made.end()
    assert made.counted.calls.host_waits == 1
    calls = []
    for _ in range(3):
        made.begin_eager()
        output = made.request(PAGE)
        made.free(made.request(8 * PAGE))
        made.end_eager()
        made.graphs[0].replay(Random(0))
        made.check(made.graphs[-1])
        del made.live[output.address]
        made.allocator.free(output.address)
        calls.append((made.counted.calls.map, made.counted.calls.host_waits))
    assert made.reserved == 11 * PAGE
    assert calls[1] == calls[2]
    made.begin_eager()
    made.request(12 * PAGE)
    made.end_eager()
    assert made.reserved == 22 * PAGE
    made.graphs[0].replay(Random(0))
    made.check(made.graphs[-1])


def test_work_between_replays_leaves_no_page_mapped_twice() -> None:
    made = Captures(PAGE, 32 * PAGE)
    made.begin_eager()
    blocks = [made.request(4 * PAGE) for _ in range(8)]
    for block in blocks[::2]:
        made.free(block)
    for block in [*blocks[1::2], made.request(16 * PAGE)]:
        made.free(block)
    made.end_eager()
    assert made.counted.calls.host_waits == 1
    assert made.memory.mapped_bytes == made.reserved == 32 * PAGE


def test_a_block_of_two_streams_serves_again_after_work_between_replays() -> None:
    made = Captures(PAGE)
    made.begin_eager()
    block = made.request(8 * PAGE)  # which gets memory of its own
    made.end_eager()
    made.allocator.free(made.live.pop(block.address).address)
    for _ in range(2):
        made.begin_eager()
        made.free(made.request(8 * PAGE), CAPTURED + 1)
        made.end_eager()
    assert made.reserved == 8 * PAGE


def test_idle_memory_makes_room_for_work_between_replays() -> None:
    made = Captures(PAGE, 8 * PAGE)
    made.allocator.free(made.allocator.allocate(6 * PAGE, 0))
    ranges = made.memory.reserved_ranges
    made.begin_eager()
    block = made.request(8 * PAGE)
    assert made.allocator.figures().graphs.refused_requests == 0
    made.free(block)
    made.end_eager()
    made.allocator.give_back()
    assert (made.reserved, made.memory.reserved_ranges) == (0, ranges)
    made.begin_eager()
    made.request(8 * PAGE)
    made.end_eager()
    assert made.allocator.allocate_in_pool(BETWEEN, PAGE, 0) == 0
    assert made.allocator.figures().graphs.refused_requests == 1


def test_the_end_of_work_between_replays_that_the_device_refuses_can_be_made_again() -> None:
    refused = 0
    for calls in range(30):
        made = Captures(PAGE)
        made.begin(1)
        made.free(made.request(8 * PAGE))
        made.end()
        eager = made.begin_eager()
        mine = [made.request(PAGE) for _ in range(9)]
        for block in mine[::2]:
            made.free(block)
        made.memory.fail_after(calls, 1)
        try:
            made.end_eager()
        except (OSError, MemoryError):
            refused += 1
        made.memory.fail_after(0, 0)
        made.end_eager()
        made.graphs[0].replay(Random(0))
        made.check(eager)
        assert made.reserved <= 12 * PAGE
    assert refused > 10


def test_the_frames_that_graphs_share_are_those_of_the_largest() -> None:
    made = Captures(PAGE)
    for pool, pages in enumerate((3, 10, 6), 1):
        made.begin(pool)
        large, output = made.request(pages * PAGE), made.request(PAGE)
        made.free(large)
        made.end()
        assert output in made.live.values()
    assert made.reserved == 13 * PAGE  # the second graph's scratch, and three outputs
    made.allocator.end_pool(2)
    assert made.allocator.give_back() == 4 * PAGE  # its output still lives
    assert made.reserved == 9 * PAGE
    for block in made.live.values():
        made.allocator.free(block.address)
    made.allocator.end_pool(1)
    made.allocator.end_pool(3)
    made.allocator.give_back()
    assert made.reserved == made.memory.mapped_bytes == made.memory.reserved_ranges == 0


def test_a_capture_needs_its_live_bytes_however_its_free_ranges_lie() -> None:
    made = Captures(PAGE)
    made.begin(1)
    blocks = [made.request(4 * PAGE) for _ in range(8)]
    for block in blocks[::2]:
        made.free(block)
    made.request(16 * PAGE)
    assert made.reserved == 32 * PAGE


def blocks_of_a_step(made: Captures, pools: tuple[int, int], depth: int, unit: int) -> None:
    """Capture forward and backward of each block, as make_graphed_callables() does."""
    saved = []
    for number in range(depth):
        made.begin(pools[0])
        mine = [made.request(unit * (1 + (number * size) % 5)) for size in range(1, 7)]
        work = made.request(5 * unit)
        made.free(work)
        made.end()
        saved.append(mine)
    for mine in reversed(saved):
        made.begin(pools[1])
        gradients = [made.request(2 * unit), made.request(3 * unit)]
        for block in reversed(mine):
            work = made.request(block.bytes)
            made.free(block)
            made.free(work)
        made.free(gradients[0])
        made.end()


def whole_steps(made: Captures, pools: tuple[int, int, int], unit: int) -> None:
    """Capture a step in three shapes."""
    random = Random(0)
    for pool, length in zip(pools, (96, 128, 64), strict=True):
        made.begin(pool)
        kept = [made.request(unit * random.choice((1, 1, 3)) * length // 64) for _ in range(3)]
        saved = []
        for layer in range(12):
            for size in (1, 4, 4, 3):
                saved.append(made.request(unit * size * length // 64))
                made.free(made.request(unit * (size + layer % 3) * length // 64))
        for block in reversed(saved):
            work = made.request(block.bytes)
            made.free(block)
            made.free(work)
        made.free(kept.pop())
        made.end()


@pytest.mark.parametrize("is_step", [False, True], ids=["blocks", "three shapes"])
def test_one_pool_needs_at_most_a_hundredth_more_than_pytorchs(is_step: bool) -> None:
    unit = 3 * LARGE + 5 * 512
    one, many = Captures(LARGE, 1 << 36), Captures(LARGE, 1 << 36)
    if is_step:
        whole_steps(one, (1, 1, 1), unit)
        whole_steps(many, (1, 2, 3), unit)
    else:
        blocks_of_a_step(one, (1, 1), 12, unit)
        blocks_of_a_step(many, (1, 2), 12, unit)
    graphs = one.allocator.figures().graphs
    pytorchs = min(graphs.default_bytes, graphs.expandable_bytes)
    assert one.reserved <= min(one.most(), 1.01 * pytorchs)
    assert many.reserved <= many.most()
    assert many.reserved < many.allocator.figures().graphs.expandable_bytes
    assert not is_step or many.reserved <= 1.01 * pytorchs


def test_pytorch_serves_what_is_not_declared_or_not_captured() -> None:
    memory = SimulatedMemory(PAGE, 64 * PAGE)
    allocator = PlannedAllocator(memory)
    assert not allocator.begin_pool(1)
    allocator.set_exclusive_graphs(True)
    assert allocator.begin_pool(1)
    assert allocator.allocate_in_pool(1, 100, 3) == 0  # filled before a capture
    memory.set_captured(3, True)
    assert allocator.allocate_in_pool(1, 100, 3) == 0
    assert allocator.begin_pool(2)
    assert allocator.allocate_in_pool(2, 65 * PAGE, 3) == 0  # no memory
    block = allocator.allocate_in_pool(2, 100, 3)
    memory.set_captured(3, False)
    allocator.end_capture(2)
    assert allocator.allocate_in_pool(2, 100, 3) == 0  # not captured
    allocator.set_exclusive_graphs(False)
    assert allocator.begin_pool(2)  # later captures into the same pool
    figures = allocator.figures()
    graphs = figures.graphs
    assert (graphs.filled_pools, graphs.eager_requests, graphs.refused_requests) == (1, 1, 1)
    assert [segment["total_size"] for segment in allocator.segments()] == [PAGE]
    assert figures.reserved_bytes == PAGE
    assert allocator.free(block)
    assert not PlannedAllocator(memory, is_plain=True).begin_pool(1)


def test_a_device_that_is_full_at_the_end_of_a_capture_says_so() -> None:
    made = Captures(PAGE, 4 * PAGE)
    made.begin(1)
    made.free(made.request(4 * PAGE))
    made.end()
    made.begin(2)
    made.request(PAGE)
    with pytest.raises(MemoryError):
        made.end()


def test_the_end_of_a_capture_that_the_device_refuses_can_be_made_again() -> None:
    refused = 0
    for calls in range(30):
        made = Captures(PAGE)
        for kept in (0, 3):
            made.begin(1 + kept)
            mine = [made.request(2 * PAGE) for _ in range(6)]
            for block in mine[kept:]:
                made.free(block)
            made.memory.fail_after(calls, 1 if kept else 0)
            try:
                made.end()
            except (OSError, MemoryError):
                refused += 1
            made.memory.fail_after(0, 0)
            made.allocator.end_capture(1 + kept)
        made.graphs[1].replay(Random(0))
        made.graphs[0].replay(Random(0))
        made.check(made.graphs[1])
        assert made.reserved == 18 * PAGE
    assert refused > 10


def test_memory_of_graphs_stays_while_other_memory_is_paused() -> None:
    made = Captures(PAGE, is_checked=True)
    eager = made.allocator.allocate(8 * PAGE)
    made.begin(1)
    made.request(PAGE)
    made.free(made.request(4 * PAGE))
    made.end()
    made.graphs[0].replay(Random(0))
    assert made.allocator.pause(None, True) == 8 * PAGE
    made.graphs[0].replay(Random(0))
    made.check(made.graphs[0])
    made.allocator.resume(None)
    made.allocator.free(eager)
    assert made.allocator.take_overwrites(True) == []
