"""The states of GMLake's paper, one by one, and requests of less than a chunk."""

from __future__ import annotations

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

    def __init__(self, *, capacity: int = PLENTY) -> None:
        rules = GmlakeRules(fragmentation_limit_bytes=0)
        self.allocator = Gmlake(LedgerMemory(CHUNK, capacity * CHUNK), rules)

    def allocate(self, chunks: int) -> int:
        return self.allocator.allocate(chunks * CHUNK)

    def free(self, *blocks: int) -> None:
        for block in blocks:
            assert self.allocator.free(block)
        self.allocator.check()

    def free_blocks(self, *chunks: int) -> None:
        """Leave primitive blocks of these sizes inactive."""
        self.free(*[self.allocate(each) for each in chunks])

    def counts(self) -> tuple[int, int, int]:
        """Return how many primitive and stitched blocks there are, and the chunks behind them."""
        reserved = self.allocator.figures().reserved_bytes
        return self.allocator.primitive_count, self.allocator.stitched_count, reserved // CHUNK

    def listing(self, state: OnlineState) -> list[int]:
        """Return the chunks of the blocks in a state, the smallest first."""
        blocks = [block for segment in self.allocator.segments() for block in segment.blocks]
        return sorted(block.bytes // CHUNK for block in blocks if block.state == state)


@pytest.mark.parametrize(
    ("inactive", "asked", "state", "counts", "free"),
    [
        pytest.param([10], 10, "exact", (1, 0, 10), [], id="S1, a block of exactly the size"),
        pytest.param([30, 10, 20], 4, "single", (4, 1, 60), [6, 20, 30],
                     id="S2, the smallest larger block is split and stitched again"),
        # 8, and 3 of 6: the other 3 are left; 3 + 3 and 8 + 3 are stitched.
        pytest.param([4, 8, 6], 11, "multiple", (4, 2, 18), [3, 4],
                     id="S3, the largest are stitched and the last is split"),
        # 1 GB and 2 GB become 3 GB.
        pytest.param([512, 1024], 1536, "multiple", (2, 1, 1536), [],
                     id="S3, blocks that are enough are stitched as they are"),
        pytest.param([5], 9, "insufficient", (2, 1, 9), [], id="S4, the device has the rest"),
    ],
)  # fmt: skip
def test_a_request_is_served_in_the_state_of_the_inactive_blocks(
    inactive: list[int], asked: int, state: str, counts: tuple[int, int, int], free: list[int]
) -> None:
    lake = Lake()
    lake.free_blocks(*inactive)
    before = getattr(lake.allocator.states(), state)
    lake.allocate(asked)
    assert getattr(lake.allocator.states(), state) == before + 1
    assert lake.counts() == counts
    assert lake.listing(OnlineState.FREE) == free


def test_a_request_is_out_of_memory_if_the_device_has_none() -> None:
    lake = Lake(capacity=20)
    held = lake.allocate(8)
    lake.free_blocks(4)
    with pytest.raises(MemoryError):
        lake.allocate(13)
    assert lake.listing(OnlineState.ALLOCATED) == [8]
    lake.free(held)
    lake.allocate(20)


def test_giving_nothing_back_waits_for_nobody() -> None:
    memory = CountingMemory(LedgerMemory(CHUNK, PLENTY * CHUNK))
    lake = Gmlake(memory)
    block = lake.allocate(CHUNK)
    lake.give_back()
    assert memory.calls.synchronize == 0
    lake.free(block)
    lake.give_back()
    assert memory.calls.synchronize == 1


def test_requests_for_less_than_a_chunk_are_the_caching_allocators() -> None:
    lake = Lake()
    caching = PytorchCaching(LedgerMemory(CHUNK, PLENTY * CHUNK))
    large = lake.allocate(3)
    small = [lake.allocator.allocate(bytes) for bytes in (1, 1000, CHUNK // 2, CHUNK - 1)]
    for bytes in (1, 1000, CHUNK // 2, CHUNK - 1):
        caching.allocate(bytes)
    ours, theirs = lake.allocator.figures(), caching.figures()
    assert lake.counts() == (1, 0, 3 + theirs.reserved_bytes // CHUNK)
    assert ours.active_bytes == theirs.active_bytes + 3 * CHUNK
    for name in ("requested", "allocated", "reserved"):
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


def test_small_blocks_come_back_without_a_request() -> None:
    memory = SimulatedMemory(4096, 4 * CHUNK)
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
