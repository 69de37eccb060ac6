"""The causes are a partition of what is reserved and not allocated."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gpu_runtime.explaining.explained_moment import Moment
from gpu_runtime.explaining.explanation import Explanation
from gpu_runtime.explaining.stranded import Cause, find_stranded, free_ranges
from instances.traces.allocation_trace import AllocationTrace
from instances.traces.memory_state import Block, BlockState, Segment
from planners.errors import InstanceError

NO_TRACE = AllocationTrace(1, [], [], [], [])


def random_segments(random: Random) -> list[Segment]:
    """Return segments of a few bytes."""
    segments = []
    for number in range(random.randint(0, 12)):
        begin = at = number << 8
        blocks = []
        for _ in range(random.randint(0, 6)):
            size, state = random.randint(1, 20), random.choice([*BlockState, BlockState.FREE])
            requested = random.randint(0, size) if state is BlockState.LIVE else 0
            blocks.append(Block(at, size, requested, state))
            at += size
        pool = random.choice([0, 0, 1, -1])
        segments.append(Segment(begin, at - begin, random.randrange(2), pool, blocks))
    return segments


def cause_of(segment: Segment, byte: int) -> Cause | None:
    """Return the cause of one byte; None for a byte of a live block."""
    for block in segment.blocks:
        if block.address <= byte < block.address + block.size:
            if block.state is BlockState.FREE:
                if segment.pool:
                    return Cause.PRIVATE if segment.pool > 0 else Cause.PLANNED
                in_use = any(its.state is not BlockState.FREE for its in segment.blocks)
                return Cause.SPLIT if in_use else Cause.IDLE
            return Cause.WAITING if block.state is BlockState.WAITING else None
    return None


def test_each_byte_has_one_cause() -> None:
    seen: set[Cause] = set()
    for seed in range(60):
        segments = random_segments(Random(seed))
        painted: Counter[tuple[Cause, int, int]] = Counter()
        for segment in segments:
            for byte in range(segment.address, segment.address + segment.size):
                if (cause := cause_of(segment, byte)) is not None:
                    painted[cause, segment.pool, segment.stream] += 1
        found = find_stranded(segments)
        assert {(one.cause, one.pool, one.stream): one.size for one in found} == painted
        explained = Explanation("", Moment(NO_TRACE, segments, None, "", "", ""), None)
        reserved_less_allocated = explained.reserved - explained.allocated
        assert sum(one.size for one in found) == reserved_less_allocated
        for one in found:
            assert sum(holder.stranded for holder in one.holders) == one.size
        seen |= {one.cause for one in found}
    assert seen == set(Cause)


def test_the_largest_free_range_is_found_by_pool_and_stream() -> None:
    free = BlockState.FREE
    blocks = [Block(0, 4, 0, free), Block(4, 2, 2, BlockState.LIVE), Block(6, 9, 0, free)]
    segments = [Segment(0, 15, 1, 0, blocks), Segment(64, 5, 1, 0, [Block(64, 5, 0, free)])]
    [found] = free_ranges(segments)
    assert (found.largest, found.free) == (9, 18)
    assert free_ranges([*segments, Segment(128, 7, 1, 3, [Block(128, 7, 0, free)])])[1].pool == 3


def test_blocks_have_at_most_the_bytes_of_their_segment() -> None:
    with pytest.raises(InstanceError, match="at most its 4 bytes, found 5"):
        Segment(0, 4, 0, 0, [Block(0, 5, 5, BlockState.LIVE)])
