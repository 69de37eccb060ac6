"""Where two long sequences that are much alike differ.

Note: near-linear time
----------------------
Rationale. ``SequenceMatcher`` takes the longest run that both share, then does the same on either
side. Runs of equal length, as the layers of a network leave them between their differences, are
taken from the left one by one, each after a look at all that is right of it: the time grows with
the square of the differences, and the sizes of a trace repeat, which costs a factor more.

Approach. Long sequences are cut first, where windows of many, then of fewer entries are the same
in both and ascend; what lies between is short, and ``SequenceMatcher`` compares it as before.

Limits. A long stretch without such windows counts as one difference between its equal ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from instances.traces.ascending_pairs import ascending_pairs

# Entries of the windows at which long sequences are cut, one width after the other.
WIDTHS = (32, 8, 1)
# Product of the lengths of two sequences that are compared without a cut.
MOST_COMPARED = 1 << 16


def differing_ranges(ours: Sequence[int], theirs: Sequence[int]) -> list[tuple[range, range]]:
    """Return the stretches in which two sequences differ; all between them is the same."""
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
    """Yield the positions of entries that stand for each other, ascending."""
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
