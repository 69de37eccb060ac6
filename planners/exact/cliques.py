"""The unsafe pairs of a small problem, and their covers by cliques."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from planners.exact.model_limits import require_room, require_time
from planners.model.budget import Budget
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def list_unsafe_pairs(problem: Problem, most: int) -> IntColumn:
    """Return the unsafe pairs ``a < b`` of tensors of nonzero size, sorted."""
    require_unsafe_pairs(problem, most)
    return problem.core.unsafe_pairs()


def require_unsafe_pairs(problem: Problem, most: int) -> None:
    """Raise if a problem has more unsafe pairs, including those of tensors of size 0."""
    require_room("unsafe pairs", int(problem.core.unsafe_degrees().sum()) // 2, most)


def neighbourhoods(tensors: int, pairs: IntColumn) -> list[bytes]:
    """Return, for each tensor, a key for the set of the tensor and those it forms a pair with."""
    itself = np.repeat(np.arange(tensors)[:, None], 2, axis=1)
    both = np.concatenate((itself, pairs, pairs[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return [
        part.tobytes()
        for part in np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, tensors)))
    ]


# Limits the bytes of the sets of adjacent tensors. A guess.
MOST_SET_BYTES = 1 << 30


def clique_cover(
    tensors: int,
    pairs: IntColumn,
    known: Iterable[IntColumn],
    budget: Budget,
    most_members: int,
) -> list[list[int]]:
    """Return cliques that together contain every pair.

    Known cliques are grown to maximal ones and taken if they cover a new pair. Then each tensor in
    turn opens cliques until its pairs are covered, adding first the tensors that cover the most. A
    minimum cover is NP-hard and not needed, because every cover is exact.
    """
    # A set has a bit for each tensor, and there are two sets for each tensor.
    require_room("bytes of sets of tensors", 2 * (tensors * tensors // 8), MOST_SET_BYTES)
    cover = _Cover(_adjacent(tensors, pairs, budget), budget, most_members)
    for clique in known:
        if len(clique):
            cover.open(clique.tolist())
    for tensor in range(tensors):
        while cover.uncovered[tensor]:
            cover.open([tensor])
    return cover.cliques


def _adjacent(tensors: int, pairs: IntColumn, budget: Budget) -> list[int]:
    """Return, for every tensor, the set of tensors with which it forms a pair."""
    both = np.concatenate((pairs, pairs[:, ::-1]))
    require_time(budget)  # sorting millions of pairs takes a second
    order = np.argsort(both[:, 0], kind="stable")
    require_time(budget)
    both = both[order]
    first = np.searchsorted(both[:, 0], np.arange(tensors + 1)).tolist()
    adjacent = []
    for begin, end in pairwise(first):
        require_time(budget)
        row = np.zeros(tensors, dtype=bool)
        row[both[begin:end, 1]] = True
        adjacent.append(int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little"))
    return adjacent


class _Cover:
    """Cliques that cover pairs; a set of tensors is an integer with bit ``v`` for tensor ``v``."""

    def __init__(self, adjacent: list[int], budget: Budget, most_members: int) -> None:
        self.uncovered = list(adjacent)
        self.cliques: list[list[int]] = []
        self._adjacent = adjacent
        self._budget = budget
        self._most_members = most_members
        self._members = 0

    def open(self, clique: list[int]) -> None:
        """Grow a nonempty clique to a maximal one, and keep it if it covers a new pair."""
        require_time(self._budget)
        candidates = -1
        for tensor in clique:
            candidates &= self._adjacent[tensor]
        wanted = 0
        for tensor in clique:
            wanted |= self.uncovered[tensor]
        while candidates:
            require_time(self._budget)
            tensor = _lowest_bit(candidates & wanted or candidates)
            clique.append(tensor)
            candidates &= self._adjacent[tensor]
            wanted |= self.uncovered[tensor]
        members = sum(1 << tensor for tensor in clique)
        if not any(self.uncovered[tensor] & members for tensor in clique):
            return
        for tensor in clique:
            self.uncovered[tensor] &= ~members
        self._members += len(clique)
        require_room("members of cliques", self._members, self._most_members)
        self.cliques.append(sorted(clique))


def _lowest_bit(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
