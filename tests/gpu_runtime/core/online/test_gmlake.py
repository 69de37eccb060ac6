"""What GMLake's paper says of its blocks, state by state, as small programs."""

from __future__ import annotations

import ctypes

import pytest

from gpu_runtime._core import (
    CountingMemory,
    Gmlake,
    GmlakeRules,
    LedgerMemory,
    OnlineState,
    PytorchCaching,
    SimulatedMemory,
)

pytestmark = pytest.mark.core

CHUNK = 2 << 20
PLENTY = 1 << 20


class Lake:
    """Blocks of whole chunks over a ledger; sizes are numbers of chunks."""

    def __init__(
        self,
        *,
        limit: int = 0,
        limits_blocks: bool = False,
        most_stitched: int = 1000,
        most_stitched_bytes: int = PLENTY,
        capacity: int = PLENTY,
    ) -> None:
        self.allocator = Gmlake(
            LedgerMemory(CHUNK, capacity * CHUNK),
            GmlakeRules(
                fragmentation_limit_bytes=limit * CHUNK,
                limits_blocks=limits_blocks,
                most_stitched=most_stitched,
                most_stitched_bytes=most_stitched_bytes * CHUNK,
            ),
        )

    def allocate(self, chunks: int, stream: int = 0) -> int:
        return self.allocator.allocate(chunks * CHUNK, stream)

    def free(self, *blocks: int) -> None:
        for block in blocks:
            assert self.allocator.free(block)
        self.allocator.check()

    def free_blocks(self, *chunks: int) -> list[int]:
        """Leave primitive blocks of these sizes inactive."""
        blocks = [self.allocate(each) for each in chunks]
        self.free(*blocks)
        return blocks

    def counts(self) -> tuple[int, int, int]:
        """Return how many primitive and stitched blocks there are, and the chunks behind them."""
        reserved = self.allocator.figures().reserved_bytes
        return self.allocator.primitive_count, self.allocator.stitched_count, reserved // CHUNK

    def states(self) -> dict[str, int]:
        """Return how often each state came up, those that did."""
        states = self.allocator.states()
        names = ("exact", "single", "whole", "multiple", "insufficient", "out_of_memory")
        return {name: getattr(states, name) for name in names if getattr(states, name)}

    def listing(self, state: OnlineState) -> list[int]:
        """Return the chunks of the blocks in a state, the smallest first."""
        blocks = [block for segment in self.allocator.segments() for block in segment.blocks]
        return sorted(block.bytes // CHUNK for block in blocks if block.state == state)


def test_a_first_request_gets_a_primitive_block_of_its_own() -> None:
    lake = Lake()
    lake.allocate(7)
    assert lake.counts() == (1, 0, 7)
    assert lake.states() == {"insufficient": 1}


def test_s1_a_block_of_exactly_the_size_serves_again() -> None:
    lake = Lake()
    (block,) = lake.free_blocks(10)
    assert lake.allocate(10) == block
    assert lake.counts() == (1, 0, 10)
    assert lake.states() == {"insufficient": 1, "exact": 1}


def test_s2_the_smallest_larger_block_is_split_and_stitched_again() -> None:
    lake = Lake()
    _, whole, _ = lake.free_blocks(30, 10, 20)
    lake.allocate(4)
    assert lake.states() == {"insufficient": 3, "single": 1}
    assert lake.counts() == (4, 1, 60)
    assert lake.listing(OnlineState.FREE) == [6, 20, 30]
    # Part of it is in use, so it is active as well.
    assert lake.allocate(10) != whole


def test_s2_what_was_split_serves_a_request_of_its_size() -> None:
    lake = Lake()
    (whole,) = lake.free_blocks(10)
    part = lake.allocate(4)
    lake.free(part)
    assert lake.allocate(10) == whole
    assert lake.listing(OnlineState.ALLOCATED) == [10]
    assert lake.listing(OnlineState.FREE) == []
    assert lake.states() == {"insufficient": 1, "single": 1, "exact": 1}


def test_s3_the_largest_blocks_are_stitched_and_the_last_is_split() -> None:
    lake = Lake()
    before = lake.free_blocks(4, 8, 6)
    block = lake.allocate(11)
    assert block not in before
    # 8, and 3 of 6: the other 3 are left; 3 + 3 and 8 + 3 are stitched.
    assert lake.counts() == (4, 2, 18)
    assert lake.listing(OnlineState.FREE) == [3, 4]
    assert lake.states() == {"insufficient": 3, "multiple": 1}
    lake.free(block)
    assert lake.allocate(11) == block
    assert lake.states() == {"insufficient": 3, "multiple": 1, "exact": 1}


def test_s3_blocks_that_are_enough_are_stitched_as_they_are() -> None:
    # 1 GB and 2 GB become 3 GB.
    lake = Lake()
    lake.free_blocks(512, 1024)
    lake.allocate(1536)
    assert lake.counts() == (2, 1, 1536)
    assert lake.states() == {"insufficient": 2, "multiple": 1}


def test_s4_what_is_missing_comes_from_the_device() -> None:
    lake = Lake()
    lake.free_blocks(5)
    lake.allocate(9)
    assert lake.counts() == (2, 1, 9)
    assert lake.listing(OnlineState.FREE) == []
    assert lake.states() == {"insufficient": 2}


def test_s5_a_request_is_out_of_memory_where_the_device_has_none() -> None:
    lake = Lake(capacity=20)
    held = lake.allocate(8)
    lake.free_blocks(4)
    with pytest.raises(MemoryError):
        lake.allocate(13)
    assert lake.states() == {"insufficient": 2, "out_of_memory": 1}
    assert lake.listing(OnlineState.ALLOCATED) == [8]
    lake.free(held)
    lake.allocate(20)


def test_a_stitched_block_is_active_where_one_part_is() -> None:
    lake = Lake()
    first, _ = lake.free_blocks(8, 6)
    stitched = lake.allocate(14)
    lake.free(stitched)
    assert lake.allocate(8) == first
    assert lake.allocate(14) != stitched
    assert lake.counts() == (3, 2, 22)


def test_a_split_block_is_replaced_in_what_was_stitched_of_it() -> None:
    lake = Lake()
    lake.free_blocks(8, 6)
    stitched = lake.allocate(14)
    lake.free(stitched)
    small = lake.allocate(3)
    assert lake.counts() == (3, 2, 14)
    lake.free(small)
    assert lake.allocate(14) == stitched
    assert lake.listing(OnlineState.FREE) == []


def test_a_primitive_block_is_taken_before_a_stitched_one() -> None:
    lake = Lake()
    lake.free_blocks(4, 6)
    stitched = lake.allocate(10)
    primitive = lake.allocate(10)
    lake.free(stitched, primitive)
    assert lake.allocate(10) == primitive
    assert lake.allocate(10) == stitched


def test_freed_memory_stays() -> None:
    lake = Lake()
    lake.free_blocks(10, 6)
    assert lake.counts() == (2, 0, 16)
    lake.allocator.give_back()
    assert lake.counts() == (0, 0, 0)


def test_nobody_waits_where_there_is_nothing_to_give_back() -> None:
    memory = CountingMemory(LedgerMemory(CHUNK, PLENTY * CHUNK))
    lake = Gmlake(memory)
    block = lake.allocate(CHUNK)
    lake.give_back()
    assert memory.calls.synchronize == 0
    lake.free(block)
    lake.give_back()
    assert memory.calls.synchronize == 1


def test_blocks_in_use_are_not_given_back() -> None:
    lake = Lake()
    lake.free_blocks(4, 6)
    stitched = lake.allocate(10)
    lake.free_blocks(5)
    lake.allocator.give_back()
    lake.allocator.check()
    assert lake.counts() == (2, 1, 10)
    lake.free(stitched)
    assert lake.allocate(10) == stitched


def test_steps_that_are_alike_soon_find_all_they_need() -> None:
    lake = Lake()
    sizes = [3, 14, 5, 9, 2, 26, 7, 11]
    found = []
    for _ in range(6):
        kept = [lake.allocate(size) for size in sizes]
        for size in reversed(sizes):
            lake.free(kept.pop())
            lake.free(lake.allocate(size + 1))
        found.append(lake.states())
    others = [{name: times for name, times in each.items() if name != "exact"} for each in found]
    assert others[0] != others[-1]
    assert others[-2] == others[-1]
    # 78 chunks are there at once, and none is left unused when there are.
    assert lake.counts()[2] == 78


def test_nothing_is_stitched_for_requests_below_the_limit() -> None:
    lake = Lake(limit=6)
    lake.free_blocks(3, 2)
    lake.allocate(5)
    assert lake.counts() == (3, 0, 10)
    assert lake.states() == {"insufficient": 3}


def test_requests_at_the_limit_are_stitched_of_blocks_below_it() -> None:
    lake = Lake(limit=6)
    lake.free_blocks(3, 2)
    lake.allocate(6)
    assert lake.counts() == (3, 1, 6)
    assert lake.listing(OnlineState.ALLOCATED) == [6]


def test_requests_below_the_limit_split_blocks() -> None:
    lake = Lake(limit=6)
    lake.free_blocks(4)
    lake.allocate(1)
    assert lake.listing(OnlineState.ALLOCATED) == [1]
    assert lake.listing(OnlineState.FREE) == [3]
    assert lake.states() == {"insufficient": 1, "single": 1}


def test_limited_blocks_are_neither_split_nor_stitched() -> None:
    lake = Lake(limit=6, limits_blocks=True)
    lake.free_blocks(5, 4)
    lake.allocate(3)
    lake.allocate(9)
    assert lake.listing(OnlineState.ALLOCATED) == [4, 9]
    assert lake.states() == {"insufficient": 3, "whole": 1}
    assert lake.counts() == (3, 0, 18)


def test_blocks_at_the_limit_are_split() -> None:
    lake = Lake(limit=6, limits_blocks=True)
    lake.free_blocks(6)
    lake.allocate(1)
    assert lake.counts() == (2, 1, 6)


@pytest.mark.parametrize(("blocks", "chunks"), [(2, PLENTY), (1000, 22)])
def test_the_least_recently_used_stitched_block_is_dropped(blocks: int, chunks: int) -> None:
    lake = Lake(most_stitched=blocks, most_stitched_bytes=chunks)
    lake.free_blocks(5, 4)
    first = lake.allocate(9)
    lake.free_blocks(7, 6)
    second = lake.allocate(13)
    lake.free(second, first)
    assert lake.allocate(9) == first
    lake.free(first)
    # 1 of 5 chunks is split off, which is stitched of two parts once more.
    lake.allocate(1)
    assert lake.counts() == (5, 2, 22)
    assert lake.allocate(13) != second


def test_stitched_blocks_in_use_stay() -> None:
    lake = Lake(most_stitched=1)
    held = []
    for _ in range(3):
        lake.free_blocks(5, 4)
        held.append(lake.allocate(9))
    assert lake.counts() == (6, 3, 27)
    lake.free(*held)
    lake.free_blocks(1)
    assert lake.counts()[1] == 1


def test_streams_have_blocks_of_their_own() -> None:
    lake = Lake()
    (block,) = lake.free_blocks(5)
    assert lake.allocate(5, stream=7) != block
    assert lake.counts() == (2, 0, 10)


def test_requests_are_rounded_up_to_chunks() -> None:
    lake = Lake()
    lake.allocator.allocate(CHUNK)
    lake.allocator.allocate(CHUNK + 1)
    figures = lake.allocator.figures()
    assert figures.requested_bytes == 2 * CHUNK + 1
    assert figures.allocated_bytes == figures.reserved_bytes == 3 * CHUNK


def test_requests_for_less_than_a_chunk_are_the_caching_allocators() -> None:
    lake = Lake()
    caching = PytorchCaching(LedgerMemory(CHUNK, PLENTY * CHUNK))
    large = lake.allocate(3)
    small = [lake.allocator.allocate(bytes) for bytes in (1, 1000, CHUNK // 2, CHUNK - 1)]
    for bytes in (1, 1000, CHUNK // 2, CHUNK - 1):
        caching.allocate(bytes)
    ours, theirs = lake.allocator.figures(), caching.figures()
    assert lake.counts() == (1, 0, 3 + theirs.reserved_bytes // CHUNK)
    for name in ("requested", "allocated", "active", "reserved"):
        for kind in ("bytes", "peak"):
            there = getattr(theirs, f"{name}_{kind}") + 3 * CHUNK
            assert getattr(ours, f"{name}_{kind}") == there, (name, kind)
    assert (ours.free_bytes, ours.segments) == (theirs.free_bytes, theirs.segments + 1)
    assert len(lake.allocator.segments()) == len(caching.segments()) + 1
    assert lake.allocator.use_on(small[0], 1)
    lake.free(large, *small)
    lake.allocator.give_back()
    assert lake.allocator.figures().reserved_bytes == 0


def test_a_small_request_gets_the_memory_of_idle_large_blocks() -> None:
    lake = Lake(capacity=4)
    lake.free_blocks(4)
    assert lake.allocator.allocate(1)
    assert lake.counts()[0] == 0


@pytest.mark.parametrize("chunk", [0, 4096 + 512, 2048])
def test_a_chunk_is_made_of_pages(chunk: int) -> None:
    memory = SimulatedMemory(4096, 1 << 20)
    with pytest.raises(ValueError, match=f"chunk_bytes: a multiple .* 4096 bytes, found {chunk}"):
        Gmlake(memory, GmlakeRules(chunk_bytes=chunk))


PAGE = 4096


def pages_lake(pages: int, most_stitched: int = 1000) -> tuple[SimulatedMemory, Gmlake]:
    memory = SimulatedMemory(PAGE, pages * PAGE)
    rules = GmlakeRules(chunk_bytes=PAGE, fragmentation_limit_bytes=0, most_stitched=most_stitched)
    return memory, Gmlake(memory, rules)


def write(address: int, letters: str) -> None:
    for page, letter in enumerate(letters):
        ctypes.memset(address + page * PAGE, ord(letter), PAGE)


def read(address: int, pages: int) -> str:
    return "".join(chr(ctypes.string_at(address + page * PAGE, 1)[0]) for page in range(pages))


def test_bytes_are_the_same_at_each_address_that_they_appear_at() -> None:
    _, lake = pages_lake(100)
    first, second = lake.allocate(2 * PAGE), lake.allocate(3 * PAGE)
    write(first, "ab")
    write(second, "cde")
    lake.free(first)
    lake.free(second)
    stitched = lake.allocate(5 * PAGE)
    assert read(stitched, 5) == "cdeab"
    write(stitched, "vwxyz")
    assert (read(first, 2), read(second, 3)) == ("yz", "vwx")
    lake.free(stitched)
    part = lake.allocate(PAGE)
    assert part not in (first, second, stitched)
    assert read(part, 1) == "y"
    write(part, "o")
    assert (read(first, 2), read(stitched, 5)) == ("oz", "vwxoz")


def test_memory_is_nobodys_while_another_stream_is_at_work_there() -> None:
    memory, lake = pages_lake(100)
    block = lake.allocate(4 * PAGE)
    assert lake.use_on(block, 1)
    memory.submit(1, block, 4 * PAGE)
    assert lake.free(block)
    lake.check()
    (listed,) = (segment.blocks[0] for segment in lake.segments())
    assert (listed.address, listed.state, listed.requested) == (block, OnlineState.PENDING, 0)
    assert lake.allocate(4 * PAGE) != block
    memory.finish(1)
    assert lake.allocate(4 * PAGE) == block


def test_a_captured_streams_addresses_stay() -> None:
    memory, lake = pages_lake(100, most_stitched=1)
    blocks = [lake.allocate(pages * PAGE, stream=1) for pages in (2, 3)]
    for block in blocks:
        lake.free(block)
    lake.free(lake.allocate(5 * PAGE, stream=1))
    lake.free(lake.allocate(PAGE, stream=1))
    memory.set_captured(1, True)
    lake.settle()
    before = memory.reserved_ranges, memory.mapped_bytes, memory.created_bytes
    lake.give_back()
    lake.check()
    assert (memory.reserved_ranges, memory.mapped_bytes, memory.created_bytes) == before
    assert memory.captured_work == 0
    memory.set_captured(1, False)
    lake.give_back()
    assert memory.reserved_ranges == memory.created_bytes == 0


def test_small_blocks_come_back_without_a_request() -> None:
    memory = SimulatedMemory(PAGE, 4 * CHUNK)
    lake = Gmlake(memory)
    small = lake.allocate(1000)
    assert lake.use_on(small, 1)
    memory.submit(1, small, 1000)
    assert lake.free(small)
    lake.settle()
    assert lake.figures().active_bytes == 1024
    memory.finish(1)
    lake.settle()
    assert lake.figures().active_bytes == 0


def test_addresses_stay_while_their_stream_is_at_work_there() -> None:
    memory, lake = pages_lake(100, most_stitched=1)
    blocks = [lake.allocate(pages * PAGE) for pages in (2, 3)]
    for block in blocks:
        lake.free(block)
    stitched = lake.allocate(5 * PAGE)
    memory.submit(0, stitched, 5 * PAGE)
    lake.free(stitched)
    lake.allocate(PAGE)
    # It was one too many.
    assert lake.stitched_count == 1
    lake.settle()
    lake.check()
    ranges = memory.reserved_ranges
    memory.finish(0)
    lake.settle()
    assert memory.reserved_ranges == ranges - 1
    assert memory.live_events == 0


def test_memory_that_the_device_refuses_serves_again() -> None:
    refused = 0
    for call in range(40):
        memory, lake = pages_lake(100)
        for pages in (2, 3):
            lake.free(lake.allocate(pages * PAGE))
        lake.free(lake.allocate(4 * PAGE))
        memory.fail_after(call, 1)
        try:
            lake.give_back()
        except OSError:
            refused += 1
        memory.fail_after(0, 0)
        lake.check()
        assert lake.figures().reserved_bytes == memory.created_bytes
        lake.give_back()
        lake.check()
        assert memory.created_bytes == memory.mapped_bytes == memory.reserved_ranges == 0
    assert refused
