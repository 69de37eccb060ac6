"""STWeaver's class in the core: its matcher, its pool, and the profiles that it refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpu_runtime._core import (
    CountingMemory,
    ServingOnlineAllocator,
    SimulatedMemory,
    Stweaver,
    StweaverProfile,
)

PAGE = 2 << 20
KIB = 1 << 10
Rows = Sequence[Sequence[int]]
# Two places of one key that share bytes, one of another visit, and idle bytes behind them.
PLACES = [(0, 1000, 0), (0, 1000, 512), (1, 3000, 4 * KIB)]
SPACES, INTERVALS = [(1, 0, 0)], [(8 * KIB, 16 * KIB), (20 * KIB, 24 * KIB)]


def profile(
    places: Rows = PLACES,
    spaces: Rows = SPACES,
    intervals: Rows = INTERVALS,
    *,
    visits: int = 2,
    begins: Sequence[int] | None = None,
    pool: int = PAGE,
) -> StweaverProfile:
    rows = [
        np.array(each, dtype=np.int64).reshape(-1, columns)
        for each, columns in ((places, 3), (spaces, 3), (intervals, 2))
    ]
    found = [0, len(intervals)] if begins is None else list(begins)
    return StweaverProfile(pool, 0, visits, rows[0], rows[1], found, rows[2])


def serving(device: SimulatedMemory | None = None) -> Stweaver:
    allocator = Stweaver(device or SimulatedMemory(PAGE, 1 << 30))
    allocator.adopt(profile())
    return allocator


def offset(allocator: Stweaver, bytes_: int) -> int | None:
    found = allocator.allocate(bytes_) - allocator.pool
    allocator.check()
    return found if 0 <= found < allocator.pool_bytes else None


def test_each_kind_of_request_is_served_in_its_way() -> None:
    allocator = serving()
    allocator.enter(0)
    assert offset(allocator, 1000) == 0
    # Bytes of its place are taken; then there is no place more, nor a space.
    assert offset(allocator, 1000) is None
    assert offset(allocator, 1000) is None
    allocator.enter(1)
    assert offset(allocator, 3000) == 4 * KIB
    # Best fit, then what is left, then the cache.
    assert offset(allocator, 4 * KIB) == 20 * KIB
    assert offset(allocator, 8 * KIB) == 8 * KIB
    assert offset(allocator, 1) is None
    allocator.enter(7)
    assert offset(allocator, 3000) is None
    assert allocator.allocate(1000, stream=5)
    counts = allocator.counts
    assert (counts.planned, counts.displaced, counts.reused, counts.cached) == (2, 1, 2, 4)
    assert counts.static_at_peak == 4000


def test_a_held_place_is_passed_over_in_the_next_iteration() -> None:
    allocator = serving()
    allocator.enter(1)
    first = allocator.allocate(3000)
    allocator.begin_iteration()
    # What lasts keeps its place, and the request counts as a dynamic one.
    assert offset(allocator, 3000) == 20 * KIB
    assert allocator.free(first)
    assert not allocator.free(first)
    allocator.begin_iteration()
    assert offset(allocator, 3000) == 4 * KIB


def test_the_pool_stays_while_a_block_or_a_captured_stream_needs_it() -> None:
    device = SimulatedMemory(PAGE, 1 << 30)
    allocator = serving(device)
    allocator.enter(0)
    block = allocator.allocate(1000)
    with pytest.raises(RuntimeError, match="a pool of which no block is in use is needed"):
        allocator.adopt(profile())
    allocator.give_back()
    assert allocator.pool
    allocator.free(block)
    device.set_captured(0, is_captured=True)
    allocator.give_back()
    assert allocator.pool
    device.set_captured(0, is_captured=False)
    allocator.give_back()
    assert not allocator.pool
    assert allocator.figures().reserved_bytes == 0
    # The next request reserves it again.
    allocator.begin_iteration()
    assert offset(allocator, 1000) == 0


def test_requests_kept_apart_have_their_own_segments() -> None:
    device = SimulatedMemory(PAGE, 1 << 30)
    counted = CountingMemory(device)
    allocator = Stweaver(counted)
    below = ServingOnlineAllocator(allocator, counted)
    iteration = [allocator.allocate(40 << 20) for _ in range(3)]
    for block in iteration:
        assert allocator.free(block)
    allocator.keep_apart_below(below, True)
    state = [allocator.allocate(3 << 20) for _ in range(3)]
    allocator.keep_apart_below(below, False)
    assert allocator.use_on(state[0], 5)
    assert allocator.free(state[0])
    allocator.check()
    allocator.give_back()
    # State in an idle block of the iteration would have kept a segment of 40 MiB.
    assert [segment.bytes for segment in allocator.segments()] == [20 << 20]
    allocator.check()
    for block in state[1:]:
        assert allocator.free(block)
    allocator.give_back()
    assert allocator.figures().reserved_bytes == 0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"places": [(2, 512, 0)]}, "places, entry 0: a visit below their number"),
        ({"places": [(0, 512, 100)]}, "places, entry 0: a place in the pool, at a multiple"),
        ({"places": [(0, 513, PAGE - 512)]}, "places, entry 0: a place in the pool"),
        ({"places": [(0, 0, 0)]}, "places, entry 0: a place in the pool"),
        ({"places": [(-1, 512, 0)]}, "row 0: numbers are at least 0"),
        ({"spaces": [(2, 0, 0)]}, "spaces, entry 0: a visit below their number"),
        ({"spaces": [(0, 0, 1)]}, "spaces, entry 0: a list below their number"),
        ({"intervals": [(0, 512), (0, 1024)]}, "intervals, entry 1: ascending ranges"),
        ({"intervals": [(0, PAGE + 512)]}, "intervals, entry 0: ascending ranges"),
        ({"begins": [0, 1]}, "list_begins, entry 0: from 0 to the number of intervals"),
        ({"begins": []}, "list_begins, entry 0: from 0 to the number of intervals"),
        ({"begins": [0, 3, 2]}, "list_begins"),
        ({"visits": 1 << 40}, "visits, entry 0: at most 16777216"),
        ({"pool": 1 << 50}, "pool_bytes, entry 0: no device has as much"),
    ],
)  # fmt: skip
def test_a_profile_that_breaks_a_rule_is_refused(changes: dict[str, Rows], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        profile(**changes)  # type: ignore[arg-type]
