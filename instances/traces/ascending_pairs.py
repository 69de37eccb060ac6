"""Pairs of equal entries of two sequences that ascend in both, in O(n log n)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence


def ascending_pairs(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair the n-th with the n-th of what both have equally often; keep what ascends longest."""
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
    """Longest subsequence whose second entries ascend; the first ones do already."""
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
