"""Columns that do not fit together are refused before anything is served by them."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest

from gpu_runtime._core import (
    BLOCK_ALIGNMENT,
    ESCAPES,
    PlannedAllocator,
    SimulatedMemory,
    StepMode,
    StreamPlan,
)
from tests.gpu_runtime.allocator.synthetic_training import PAGE_BYTES

pytestmark = pytest.mark.core

ARENA_BYTES = 4096


def stream_plan(
    size: list[int],
    offset: list[int],
    freed_before: list[list[int]] | None = None,
    stream: int = 0,
) -> StreamPlan:
    lists = freed_before if freed_before is not None else [[] for _ in size]
    begin = np.cumsum([0, *(len(requests) for requests in lists)])
    return StreamPlan(
        stream,
        np.array(size, dtype=np.int64),
        np.array(offset, dtype=np.int64),
        begin.astype(np.int32),
        np.array([request for requests in lists for request in requests], dtype=np.int32),
    )


def allocator() -> PlannedAllocator:
    return PlannedAllocator(SimulatedMemory(PAGE_BYTES, 1 << 22))


@pytest.mark.parametrize(
    ("plan", "rule"),
    [
        (stream_plan([1, 2], [0]), "every request has an offset"),
        (stream_plan([1, 2], [0, 512, 1024]), "every request has an offset"),
        (stream_plan([1], [0], []), "frees are listed"),
        (stream_plan([1], [0], [[], []]), "frees are listed"),
        (stream_plan([0], [0]), "at least one byte"),
        (stream_plan([-5], [0]), "at least one byte"),
        (stream_plan([5], [1]), "multiples of 512"),
        (stream_plan([5], [-512]), "multiples of 512"),
        (stream_plan([5], [-2]), "multiples of 512"),
        (stream_plan([513], [3584]), "within the arena"),
        (stream_plan([1], [4096]), "within the arena"),
        (stream_plan([1], [1 << 62]), "within the arena"),
        (stream_plan([(1 << 63) - 1], [512]), "within the arena"),
        (stream_plan([1, 1], [0, 512], [[], [2]]), "frees are of requests"),
        (stream_plan([1, 1], [0, 512], [[-1], []]), "frees are of requests"),
        (stream_plan([1, 1], [0, 512], [[1], [1]]), "is freed once"),
    ],
)
def test_columns_that_do_not_fit_together(plan: StreamPlan, rule: str) -> None:
    unplanned = allocator()
    with pytest.raises(ValueError, match=f"plan of a step: .*{rule}"):
        unplanned.adopt_plan([plan], ARENA_BYTES)
    assert unplanned.figures().arena_bytes == 0
    with pytest.raises(RuntimeError, match="needs a plan"):
        unplanned.begin_step(StepMode.PLANNED)


def test_frees_that_are_listed_backwards() -> None:
    size, offset = np.array([1, 1]), np.array([0, 512])
    begin, freed = np.array([0, 2, 1], dtype=np.int32), np.array([0], dtype=np.int32)
    with pytest.raises(ValueError, match="frees are listed"):
        allocator().adopt_plan([StreamPlan(0, size, offset, begin, freed)], ARENA_BYTES)


@pytest.mark.parametrize(
    ("plan", "pair"),
    [
        #   request  0 1     both are there at the end of the step
        (stream_plan([600, 5], [0, 512]), r"0 at \[0, 1024\) and 1 at \[512, 1024\)"),
        (stream_plan([5, 600], [512, 0]), r"0 at \[512, 1024\) and 1 at \[0, 1024\)"),
        # 0 is freed before request 2, not before 1
        (stream_plan([5, 5, 5], [0, 0, 512], [[], [], [0]]), r"0 at .* and 1 at"),
        # 2 lies there when the next step begins, until before its request 1
        (stream_plan([5, 5, 5], [0, 512, 0], [[], [0, 2], []]), r"0 at .* and 2 at"),
        # and as long as the step itself, where it is freed before its own turn
        (stream_plan([5, 5, 5], [0, 512, 512], [[], [0], [1, 2]]), r"1 at .* and 2 at"),
    ],
)
def test_requests_in_use_at_one_time_share_no_byte(plan: StreamPlan, pair: str) -> None:
    unplanned = allocator()
    rule = f"stream 0: requests in use at one time share no byte, found requests {pair}"
    with pytest.raises(ValueError, match=rule):
        unplanned.adopt_plan([plan], ARENA_BYTES)
    assert unplanned.figures().arena_bytes == 0


def test_requests_that_share_bytes_are_refused_exactly_where_they_meet() -> None:
    """Held against the sets of turns at which each request is in use."""
    for seed in range(1000):
        judge_random_plan(Random(seed))


def judge_random_plan(rng: Random) -> None:
    count = rng.randint(1, 6)
    size = [rng.choice((5, 600, 1025)) for _ in range(count)]
    offset = [rng.choice((ESCAPES, 0, 512, 1024, 1536)) for _ in range(count)]
    freed = [rng.choice((None, *range(count))) for _ in range(count)]
    turns = [turns_in_use(count, request, before) for request, before in enumerate(freed)]
    clash = any(
        turns[a] & turns[b] and 0 <= offset[a] < end_of(offset[b], size[b])
        and 0 <= offset[b] < end_of(offset[a], size[a])
        for a, b in combinations(range(count), 2)
    )  # fmt: skip
    lists = [[r for r in range(count) if freed[r] == before] for before in range(count)]
    plan, planned = stream_plan(size, offset, lists), allocator()
    if clash:
        with pytest.raises(ValueError, match="share no byte"):
            planned.adopt_plan([plan], ARENA_BYTES)
    else:
        planned.adopt_plan([plan], ARENA_BYTES)


def turns_in_use(count: int, request: int, freed_before: int | None) -> set[int]:
    """Return the requests at whose making one is in use, its own included."""
    if freed_before is None:
        return set(range(request, count))
    if freed_before > request:
        return set(range(request, freed_before))
    return set(range(request, count)) | set(range(freed_before))


def end_of(offset: int, size: int) -> int:
    return offset + -(-size // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT


def test_streams_with_the_same_bytes_or_the_same_name() -> None:
    one, other = stream_plan([600], [0]), stream_plan([600], [512], stream=1)
    with pytest.raises(ValueError, match="a part of the arena of its own"):
        allocator().adopt_plan([one, other], ARENA_BYTES)
    with pytest.raises(ValueError, match="a stream has one plan"):
        allocator().adopt_plan([one, stream_plan([600], [1024])], ARENA_BYTES)
    # A stream without a place is in nobody's way.
    none = stream_plan([600], [ESCAPES], stream=2)
    allocator().adopt_plan([none, one, stream_plan([600], [1024], stream=1)], ARENA_BYTES)


def test_a_plan_is_adopted_once_and_between_steps() -> None:
    planned = allocator()
    planned.begin_step(StepMode.PROFILED)
    with pytest.raises(RuntimeError, match="between steps"):
        planned.adopt_plan([], 0)
    planned.end_step()
    planned.adopt_plan([], 0)
    with pytest.raises(RuntimeError, match="a plan already"):
        planned.adopt_plan([], 0)
    with pytest.raises(RuntimeError, match="did not begin"):
        planned.end_step()


def test_a_plan_is_dropped_once_and_between_steps() -> None:
    planned = allocator()
    with pytest.raises(RuntimeError, match="no plan to drop"):
        planned.drop_plan()
    planned.adopt_plan([], 0)
    planned.begin_step(StepMode.PLANNED)
    with pytest.raises(RuntimeError, match="between steps"):
        planned.drop_plan()
    planned.end_step()
    planned.drop_plan()
    with pytest.raises(RuntimeError, match="no plan to drop"):
        planned.drop_plan()


def test_an_arena_that_cannot_be_had_leaves_nothing_behind() -> None:
    device = SimulatedMemory(PAGE_BYTES, 2 * PAGE_BYTES)
    planned = PlannedAllocator(device)
    with pytest.raises(MemoryError):
        planned.adopt_plan([stream_plan([5], [0])], 3 * PAGE_BYTES)
    assert device.created_bytes == device.reserved_ranges == 0
    planned.adopt_plan([stream_plan([5], [0])], 2 * PAGE_BYTES)
    assert device.created_bytes == 2 * PAGE_BYTES
    figures = planned.figures()
    assert figures.reserved_bytes == figures.reserved_peak == 2 * PAGE_BYTES


def test_places_of_the_arena_are_freed_by_their_beginning_alone() -> None:
    planned = allocator()
    planned.adopt_plan([stream_plan([2000], [512])], ARENA_BYTES)
    planned.begin_step(StepMode.PLANNED)
    address = planned.allocate(2000)
    for other in (address - 512, address + 512, address + 1):
        planned.free(other)
    assert planned.figures().requested_bytes == 2000
    planned.free(address)
    planned.free(address)
    assert planned.figures().requested_bytes == planned.figures().allocated_bytes == 0
    planned.end_step()
