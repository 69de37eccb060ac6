"""Entries of two long, similar sequences that correspond, and the ranges in which they differ.

Note: near-linear time
----------------------
Rationale. ``SequenceMatcher`` takes the longest run that both sequences share, then repeats that on
either side. The layers of a network leave runs of equal length between their differences. Such
runs are taken from the left one by one, each after a pass over everything to its right. The time
grows with the square of the number of differences, and repeated sizes cost a further factor.

Approach. Long sequences are first cut at windows that are equal in both and ascend in both, wide
windows before narrow ones. ``SequenceMatcher`` compares only the short pieces between cuts.

Limits. A long stretch without such a window counts as one difference between its equal ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher


def ascending_pairs(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair the n-th occurrences of entries that both have equally often; keep the longest chain.

    The pairs of the chain ascend in both sequences. Takes O(n log n).
    """
    counts, counts_there = Counter(ours), Counter(theirs)
    waiting: dict[Hashable, list[int]] = {}
    for position in reversed(range(len(theirs))):
        waiting.setdefault(theirs[position], []).append(position)
    candidates = [
        (position, waiting[key].pop())
        for position, key in enumerate(ours)
        if counts[key] == counts_there[key]
    ]
    return _longest_ascending(candidates)


def _longest_ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence whose second entries ascend; the first entries do already."""
    tails: list[int] = []
    tail_pair: list[int] = []
    previous: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        previous.append(tail_pair[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_pair.append(index)
        else:
            tails[length], tail_pair[length] = value, index
    chain: list[tuple[int, int]] = []
    index = tail_pair[-1] if tail_pair else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


# Entries of the windows at which long sequences are cut, one width after the other.
WIDTHS = (32, 8, 1)
# Product of the lengths of two sequences that are compared without a cut.
MOST_COMPARED = 1 << 16


def differing_ranges(ours: Sequence[int], theirs: Sequence[int]) -> list[tuple[range, range]]:
    """Return the ranges in which two sequences differ; between these ranges they are equal."""
    differing = []
    next_ours = next_theirs = 0
    pairs = _pairs(ours, theirs, range(len(ours)), range(len(theirs)), WIDTHS)
    for here, there in [*pairs, (len(ours), len(theirs))]:
        if here > next_ours or there > next_theirs:
            differing.append((range(next_ours, here), range(next_theirs, there)))
        next_ours, next_theirs = here + 1, there + 1
    return differing


def _pairs(
    ours: Sequence[int], theirs: Sequence[int], here: range, there: range, widths: tuple[int, ...]
) -> Iterator[tuple[int, int]]:
    """Yield the positions of entries that correspond to each other, ascending."""
    if not here or not there:
        return
    if len(here) * len(there) <= MOST_COMPARED:
        first, second = ours[here.start : here.stop], theirs[there.start : there.stop]
        for at, other, length in SequenceMatcher(
            None, first, second, autojunk=False
        ).get_matching_blocks():
            yield from zip(here[at : at + length], there[other : other + length], strict=True)
    elif widths:
        windows = (
            [tuple(side[at : at + widths[0]]) for at in within[: 1 - widths[0] or None]]
            for side, within in ((ours, here), (theirs, there))
        )
        next_here = next_there = 0
        for at, other in [*ascending_pairs(*windows), (len(here), len(there))]:
            left, right = here[next_here:at], there[next_there:other]
            yield from _pairs(ours, theirs, left, right, widths[1:])
            if at < len(here):
                yield here[at], there[other]
            next_here, next_there = at + 1, other + 1
    else:
        yield from _equal_ends(ours, theirs, here, there)


def _equal_ends(
    ours: Sequence[int], theirs: Sequence[int], here: range, there: range
) -> Iterator[tuple[int, int]]:
    head = _equal_at_start(ours, theirs, here, there)
    yield from zip(here[:head], there[:head], strict=True)
    here, there = here[head:][::-1], there[head:][::-1]
    tail = _equal_at_start(ours, theirs, here, there)
    yield from zip(here[:tail][::-1], there[:tail][::-1], strict=True)


def _equal_at_start(ours: Sequence[int], theirs: Sequence[int], here: range, there: range) -> int:
    both = zip(here, there, strict=False)
    return next(
        (n for n, (at, other) in enumerate(both) if ours[at] != theirs[other]),
        min(len(here), len(there)),
    )
