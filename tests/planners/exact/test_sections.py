"""Time cut into sections: overlap in time is overlap of section ranges, however far steps lie."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners import _core

pytestmark = pytest.mark.core

Segments = list[tuple[int, int]]

segments = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 8)).map(lambda pair: (pair[0], sum(pair))),
    max_size=12,
)


def ranges_of(lifetimes: Segments) -> tuple[Segments, int]:
    """Return the section range of each lifetime, and the number of sections."""
    rows = np.array(
        [(tensor, start, end) for tensor, (start, end) in enumerate(lifetimes)], dtype=np.int64
    ).reshape(-1, 3)
    first, last, count = _core.section_ranges(len(lifetimes), rows)
    return list(zip(first.tolist(), last.tolist(), strict=True)), count


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


@given(segments)
def test_overlap_in_time_is_overlap_of_sections(lifetimes: Segments) -> None:
    ranges, count = ranges_of(lifetimes)
    assert all(0 <= first < last <= count for first, last in ranges)
    for (a, in_sections), (b, others) in combinations(zip(lifetimes, ranges, strict=True), 2):
        assert overlap(a, b) == overlap(in_sections, others)


@given(segments)
def test_there_is_a_section_for_each_run_of_starts(lifetimes: Segments) -> None:
    #   steps   0 1 2 3
    #   a       |---|          a and b start in one run, a ends, c starts: two sections
    #   b         |---
    #   c           |-
    events = sorted(
        {(start, True) for start, _ in lifetimes} | {(end, False) for _, end in lifetimes}
    )
    starts = [starts for _, starts in events]
    runs = sum(now and not before for before, now in zip([False, *starts], starts, strict=False))
    assert ranges_of(lifetimes)[1] == runs


@given(segments, st.integers(-(1 << 50), 1 << 50))
def test_only_the_order_of_steps_counts(lifetimes: Segments, origin: int) -> None:
    far_apart = [
        (origin + start * 1_000_000_007, origin + end * 1_000_000_007) for start, end in lifetimes
    ]
    assert ranges_of(far_apart) == ranges_of(lifetimes)


def test_steps_may_span_all_of_int64() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    assert ranges_of([(int(least), 0), (0, int(most))]) == ([(0, 1), (1, 2)], 2)
