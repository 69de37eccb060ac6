"""Requests whose bytes another stream gets next, held against a look at each block of bytes."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import BLOCK_ALIGNMENT, NO_PLACE, with_hand_overs
from tests.gpu_runtime.core.small_plans import small_plan

pytestmark = pytest.mark.core

# Requests of a step: bytes, offset, stream.
Steps = list[tuple[int, int, int]]


def blocks_of(size: int, offset: int) -> range:
    if offset == NO_PLACE:
        return range(0)
    return range(offset // BLOCK_ALIGNMENT, -(-(offset + size) // BLOCK_ALIGNMENT))


def handed_over(plans: list[Steps]) -> list[list[int]]:
    """Return the flags by running each plan alone, and before each one."""
    flags = [[0] * len(plan) for plan in plans]
    for plan, marks in zip(plans, flags, strict=True):
        for then in ([], *plans):
            last: dict[int, tuple[int, int]] = {}  # of each block: the last request, and its stream
            for turn, (size, offset, stream) in enumerate([*plan, *then]):
                for block in blocks_of(size, offset):
                    number, before = last.get(block, (-1, stream))
                    if number >= 0 and before != stream:
                        marks[number] = 1
                    last[block] = (turn if turn < len(plan) else -1, stream)
    return flags


@pytest.mark.parametrize("seed", range(200))
def test_bytes_that_change_streams(seed: int) -> None:
    rng = Random(seed)
    places = [NO_PLACE, *(BLOCK_ALIGNMENT * k for k in range(12))]
    plans = [
        [(rng.randint(1, 2000), rng.choice(places), rng.choice([0, 7, 9])) for _ in range(count)]
        for count in (rng.randint(0, 12) for _ in range(rng.randint(1, 4)))
    ]
    made = [small_plan([each[:2] for each in plan], [each[2] for each in plan]) for plan in plans]
    marked = with_hand_overs(made, 1 << 20)
    assert [list(plan.handed_over) for plan in marked] == handed_over(plans)


def test_places_outside_of_the_arena_are_refused() -> None:
    with pytest.raises(ValueError, match="within the arena"):
        with_hand_overs([small_plan([(5, 512)])], 512)
