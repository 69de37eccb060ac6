"""Requests whose bytes another stream gets next, held against a look at each block of bytes."""

from __future__ import annotations

from random import Random

import pytest

from gpu_runtime._core import BLOCK_ALIGNMENT, NO_PLACE, with_hand_overs
from tests.gpu_runtime.core.books import Slot, kind_plan

pytestmark = pytest.mark.core

Kind = list[Slot]


def blocks_of(slot: Slot) -> set[int]:
    begins = [offset for offset in (slot.offset, slot.spare) if offset != NO_PLACE]
    return {
        block
        for begin in begins
        for block in range(begin // BLOCK_ALIGNMENT, -(-(begin + slot.most) // BLOCK_ALIGNMENT))
    }


def handed_over(kinds: list[Kind]) -> list[list[int]]:
    """Return the flags by running each kind alone, and before each one."""
    flags = [[0] * len(kind) for kind in kinds]
    for kind, marks in zip(kinds, flags, strict=True):
        for then in ([], *kinds):
            last: dict[int, tuple[int, int]] = {}  # of each block: slot of the first, and stream
            for turn, slot in enumerate([*kind, *then]):
                for block in blocks_of(slot):
                    number, stream = last.get(block, (-1, slot.stream))
                    if number >= 0 and stream != slot.stream:
                        marks[number] = 1
                    last[block] = (turn if turn < len(kind) else -1, slot.stream)
    return flags


@pytest.mark.parametrize("seed", range(200))
def test_bytes_that_change_streams(seed: int) -> None:
    rng = Random(seed)
    places = [NO_PLACE, *(BLOCK_ALIGNMENT * k for k in range(12))]
    kinds = [
        [
            Slot(1, rng.randint(1, 2000), rng.choice([0, 7, 9]), rng.choice(places),
                 rng.choice([NO_PLACE, NO_PLACE, rng.choice(places)]))
            for _ in range(rng.randint(0, 12))
        ]
        for _ in range(rng.randint(1, 4))
    ]  # fmt: skip
    marked = with_hand_overs([kind_plan(kind) for kind in kinds], 1 << 20)
    assert [list(kind.handed_over) for kind in marked] == handed_over(kinds)


def test_places_outside_of_the_arena_are_refused() -> None:
    with pytest.raises(ValueError, match="within the arena"):
        with_hand_overs([kind_plan([Slot(1, 5, 0, 512)])], 512)
