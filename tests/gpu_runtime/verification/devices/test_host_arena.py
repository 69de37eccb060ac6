"""Stamps are the pattern and nothing beside it; checks judge what they have copied."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_runtime.verification.devices.device import ForeignWords
from gpu_runtime.verification.devices.host_arena import BLOCK_BYTES, HostArena, WrongWords
from gpu_runtime.verification.trials.arena_layout import Layout
from gpu_runtime.verification.trials.stamp_pattern import pattern_bytes

KEY = 0x1234567890ABCDEF
OFFSETS = [0, 1, 7, 8, 17, BLOCK_BYTES - 3]
SIZES = [1, 7, 8, 9, 1000, 2 * BLOCK_BYTES + 5]


def arena_of(*tensors: tuple[int, int]) -> HostArena:
    """Return an arena with tensors of given offsets and sizes, and some bytes after them."""
    offset, size = np.array(tensors).T
    return HostArena(Layout(offset, size, int((offset + size).max()) + 40))


def content(arena: HostArena) -> NDArray[np.uint8]:
    return arena._bytes


def found_in(arena: HostArena, tensor: int) -> WrongWords:
    wrong = WrongWords()
    arena.check(tensor, KEY, wrong)
    return wrong


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("size", SIZES)
def test_a_stamp_is_the_pattern_and_nothing_beside_it(offset: int, size: int) -> None:
    arena = arena_of((offset, size))
    arena.stamp(0, KEY)
    stamped = content(arena).copy()
    assert found_in(arena, 0) == WrongWords()
    arena.close()
    np.testing.assert_array_equal(
        stamped[offset : offset + size], pattern_bytes(0, offset, size, KEY)
    )
    assert not stamped[:offset].any()
    assert not stamped[offset + size :].any()


@pytest.mark.parametrize("place", [0, 5, BLOCK_BYTES - 4, BLOCK_BYTES - 3, 2 * BLOCK_BYTES + 4])
def test_one_wrong_byte_is_seen(place: int) -> None:
    arena = arena_of((3, 2 * BLOCK_BYTES + 5))
    arena.stamp(0, KEY)
    content(arena)[3 + place] ^= 1
    found = found_in(arena, 0)
    arena.close()
    assert found.foreign == []
    (broken,) = found.broken
    assert broken.word == (3 + place) // 8
    assert broken.mask >> (3 + place) % 8 & 1


def test_whole_foreign_words_name_their_writer_and_edges_are_handed_on() -> None:
    #   byte      0    4    8        16   20
    #   0              |------------------|
    #   1         |-----------------------|
    arena = arena_of((4, 16), (0, 20))
    arena.stamp(0, KEY)
    arena.stamp(1, KEY)
    found = found_in(arena, 0)
    arena.close()
    assert found.foreign == [ForeignWords(0, 1, 8, 1)]
    assert [(it.word, it.mask) for it in found.broken] == [(0, 0xF0), (2, 0x0F)]
    assert found.broken[0].found & 0xFFFFFFFF == 0
    assert found.broken[1].found >> 32 == 0


def test_whole_words_between_the_edges_are_in_one_block() -> None:
    arena = arena_of((4, 2 * BLOCK_BYTES), (0, 2 * BLOCK_BYTES + 8))
    arena.stamp(0, KEY)
    arena.stamp(1, KEY)
    found = found_in(arena, 0)
    arena.close()
    assert sum(it.plan_bytes for it in found.foreign) == 2 * BLOCK_BYTES - 8
    assert [it.word for it in found.broken] == [0, 2 * BLOCK_BYTES // 8]


def test_the_pattern_of_a_tensor_that_does_not_exist_is_nobodys() -> None:
    arena = arena_of((0, 8))
    content(arena)[:8] = pattern_bytes(1, 0, 8, KEY)
    found = found_in(arena, 0)
    arena.close()
    assert found.foreign == []
    assert [it.word for it in found.broken] == [0]


def test_writes_after_the_copy_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pattern is made between the copy and the comparison: there another thread writes."""
    arena = arena_of((0, 64), (0, 64))
    arena.stamp(1, KEY)

    def write_and_make(tensor: int, offset: int, size: int, key: int) -> NDArray[np.uint8]:
        content(arena)[:64] = 0
        return pattern_bytes(tensor, offset, size, key)

    monkeypatch.setattr("gpu_runtime.verification.devices.host_arena.pattern_bytes", write_and_make)
    found = found_in(arena, 0)
    arena.close()
    assert found.foreign == [ForeignWords(0, 1, 64, 0)]
    assert found.broken == []


def test_an_arena_closes_while_somebody_still_looks() -> None:
    arena = arena_of((0, 64))
    view = content(arena)[:8]
    arena.close()
    assert not view.any()
