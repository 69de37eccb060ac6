"""Compressed layouts keep who overlaps whom, and say which bytes each word stands for."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runtime.verification.trials.arena_layout import compressed, full_layout
from planners import Problem
from planners.errors import InstanceError


def problem_of(size: list[int]) -> Problem:
    return Problem(size, [0] * len(size), [1] * len(size))


def test_one_word_for_all_bytes_that_the_same_tensors_cover() -> None:
    #          0    3    5         10   12
    #   0      |---------|
    #   1           |--------------|
    #   2                           gap |----  to 20
    size, offsets = [5, 7, 8, 0], np.array([0, 3, 12, 6])
    small = compressed(full_layout(problem_of(size), offsets))
    assert small.offset[:3].tolist() == [0, 8, 32]
    assert small.size.tolist() == [16, 16, 8, 0]
    assert small.arena_bytes == 40
    assert [small.plan_offset(word) for word in range(5)] == [0, 3, 5, 10, 12]
    assert small.plan_bytes(np.arange(5)) == 20
    assert small.plan_bytes(np.array([1, 4])) == 2 + 8


def test_overlaps_are_the_same_before_and_after() -> None:
    rng = np.random.default_rng(5)
    size = rng.integers(0, 30, 40)
    offsets = rng.integers(0, 100, 40)
    full = full_layout(problem_of(size.tolist()), offsets)
    small = compressed(full)
    for a in range(40):
        for b in range(40):
            if size[a] and size[b]:
                before, after = (
                    layout.offset[a] < layout.offset[b] + layout.size[b]
                    and layout.offset[b] < layout.offset[a] + layout.size[a]
                    for layout in (full, small)
                )
                assert before == after
    assert small.arena_bytes <= 2 * 40 * 8


@pytest.mark.parametrize("size", [[], [0, 0]])
def test_without_bytes_there_is_no_arena(size: list[int]) -> None:
    full = full_layout(problem_of(size), np.zeros(len(size), dtype=np.int64))
    assert (full.arena_bytes, compressed(full).arena_bytes) == (0, 0)


def test_more_than_a_pattern_can_name_is_refused() -> None:
    assert full_layout(problem_of([4 << 40]), np.array([0])).arena_bytes == 4 << 40
    with pytest.raises(InstanceError, match=r"4 TiB, found 1 tensors and a peak of 4398046511105"):
        full_layout(problem_of([(4 << 40) + 1]), np.array([0]))
