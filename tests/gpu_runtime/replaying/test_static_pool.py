"""The pool of STWeaver: what is taken, what is free, and the best fit, beside single bytes."""

from __future__ import annotations

import random

import pytest

from gpu_runtime.replaying.static_pool import StaticPool

BYTES = 40


def runs(free: list[bool]) -> list[tuple[int, int]]:
    """Return the runs of free bytes, as first byte and number."""
    found: list[tuple[int, int]] = []
    for at, is_free in enumerate([*free, False]):
        if is_free and (at == 0 or not free[at - 1]):
            found.append((at, 0))
        if is_free:
            found[-1] = (found[-1][0], found[-1][1] + 1)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_a_pool_is_its_bytes(seed: int) -> None:
    rng = random.Random(seed)
    pool, taken = StaticPool(), [False] * BYTES
    blocks: dict[int, int] = {}
    for _ in range(300):
        if blocks and rng.random() < 0.4:
            offset = rng.choice(list(blocks))
            size = blocks.pop(offset)
            pool.free(offset)
            taken[offset : offset + size] = [False] * size
            continue
        size = rng.randrange(1, 8)
        cuts = sorted(rng.sample(range(BYTES + 1), 6))
        intervals = list(zip(cuts[::2], cuts[1::2], strict=True))
        allowed = [any(a <= at < b for a, b in intervals) for at in range(BYTES)]
        found = runs([may and not is_taken for may, is_taken in zip(allowed, taken, strict=True)])
        fitting = [(room, at) for at, room in found if room >= size]
        offset_or_none = pool.best_fit(intervals, size)
        assert offset_or_none == (min(fitting)[1] if fitting else None)
        offset = rng.randrange(BYTES - size) if offset_or_none is None else offset_or_none
        is_free = not any(taken[offset : offset + size])
        assert pool.take(offset, size) == is_free
        if is_free:
            blocks[offset] = size
            taken[offset : offset + size] = [True] * size
