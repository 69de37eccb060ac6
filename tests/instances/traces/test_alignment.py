"""Where two sequences differ: as difflib says on short ones, and rightly on long ones."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.traces import alignment
from instances.traces.alignment import differing_ranges

Ranges = list[tuple[range, range]]
SIZES = st.lists(st.integers(0, 3), max_size=14)


def by_difflib(ours: list[int], theirs: list[int]) -> Ranges:
    opcodes = SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()
    return [(range(a, b), range(c, d)) for what, a, b, c, d in opcodes if what != "equal"]


def require_alignment(ours: list[int], theirs: list[int], ranges: Ranges) -> None:
    """All between two stretches that differ is the same, and at least one entry long."""
    at_ends = [(range(0), range(0)), *ranges, (range(len(ours), -1), range(len(theirs), -1))]
    for index, ((here, there), (next_here, next_there)) in enumerate(pairwise(at_ends)):
        between = ours[here.stop : next_here.start]
        assert between == theirs[there.stop : next_there.start]
        assert between or index in (0, len(ranges))
    assert all(here or there for here, there in ranges)


@given(SIZES, SIZES)
def test_short_sequences_are_compared_as_difflib_does(ours: list[int], theirs: list[int]) -> None:
    assert differing_ranges(ours, theirs) == by_difflib(ours, theirs)


@settings(max_examples=500)
@given(SIZES, SIZES, st.sampled_from([(3, 2), (2,), (1,), ()]), st.sampled_from([0, 4, 20]))
def test_cuts_keep_what_is_the_same(
    ours: list[int], theirs: list[int], widths: tuple[int, ...], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "WIDTHS", widths)
        patch.setattr(alignment, "MOST_COMPARED", most)
        require_alignment(ours, theirs, differing_ranges(ours, theirs))


def test_every_difference_of_a_long_run_is_found() -> None:
    # Layers of the same sizes, and in every third of them one request is another.
    rng = Random(1)
    layer = [rng.randrange(1, 30) for _ in range(40)]
    ours = layer * 600
    theirs = list(ours)
    changed = range(25, len(ours), 120)
    for index in changed:
        theirs[index] += 1000
    expected = [(range(index, index + 1), range(index, index + 1)) for index in changed]
    assert differing_ranges(ours, theirs) == expected


def test_long_runs_of_few_sizes_are_aligned() -> None:
    ours, theirs = [7, *[1, 2] * 300, 8], [7, *[1, 3] * 250, 8]
    assert differing_ranges(ours, ours + ours) == [(range(602, 602), range(602, 1204))]
    require_alignment(ours, theirs, differing_ranges(ours, theirs))
