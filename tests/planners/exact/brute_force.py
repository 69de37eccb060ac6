"""The optimum by exhaustive search, from the definition alone; up to about nine tensors.

Every valid plan has, for each unsafe pair of tensors with bytes, one of the two below the other.
Deciding that for some pairs leaves conditions ``offset[upper] >= offset[lower] + size[lower]``,
chains, alignments, pins and ``offset >= 0``. Offsets that satisfy them are closed under taking
the smaller of two offsets block by block, so there is a least solution, whose every offset, and
hence whose peak, is the smallest. It is reached by starting every block at its least aligned
offset and raising what breaks a condition to the next aligned offset that does not, until nothing
does. Where no unsafe pair overlaps in it, it is the best plan of these decisions. Elsewhere both
ways to decide a pair that overlaps are tried; a partial decision already too high is not
continued, since further conditions only raise it. No candidate offsets need an argument, so
alignments and interleaved chains are no special cases.

To check an answer it is enough that nothing is below its bound, which takes less time than the
optimum: such a search prunes at that bound from the start, and where tensors that are pairwise
unsafe have as many bytes together there is nothing to search.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from planners.model.problem import Problem
from tests.definitions import unsafe


def optimal_peak(problem: Problem, below: int | None = None) -> int | None:
    """Return the smallest peak in bytes, below a given one, without the capacity; or None."""
    return _Search(problem, below).best


class _Search:
    def __init__(self, problem: Problem, below: int | None) -> None:
        self.below = below
        self.size: list[int] = problem.size.tolist()
        self.alignment = problem.alignment.tolist()
        self.pinned = problem.pinned.tolist()
        chained = {tensor for chain in problem.contiguous for tensor in chain}
        single = [(t,) for t in range(problem.tensor_count) if t not in chained]
        self.chain_of = {t: chain for chain in [*problem.contiguous, *single] for t in chain}
        pairs = [(a, b) for a, b in unsafe(problem) if self.size[a] and self.size[b]]
        # The largest first: their conflicts cut the most.
        self.pairs = sorted(pairs, key=lambda p: (-min(self.size[p[0]], self.size[p[1]]), p))
        self.best: int | None = None
        offsets = [0] * problem.tensor_count
        chains = set(self.chain_of.values())
        if below is not None and below <= self._heaviest_clique([], range(len(offsets))):
            return
        if all(self._raise_chain(offsets, chain, self._first_head(chain)) for chain in chains):
            self._decide(offsets, [])

    def _heaviest_clique(self, clique: list[int], others: Iterable[int]) -> int:
        """Return the most bytes of pairwise unsafe tensors, some given, the rest among others."""
        best = sum(self.size[tensor] for tensor in clique)
        left = list(others)
        while left:
            tensor = left.pop()
            tied = [o for o in left if (o, tensor) in self.pairs]
            best = max(best, self._heaviest_clique([*clique, tensor], tied))
        return best

    def _first_head(self, chain: tuple[int, ...]) -> int:
        """Return where a chain starts before anything is decided: where a pin says, or at 0."""
        before = 0
        for tensor in chain:
            if self.pinned[tensor] != -1:
                return int(self.pinned[tensor] - before)
            before += self.size[tensor]
        return 0

    def _decide(self, offsets: list[int], below: list[tuple[int, int]]) -> None:
        peak = max((x + s for x, s in zip(offsets, self.size, strict=True)), default=0)
        too_high = self._too_high()
        if too_high is not None and peak >= too_high:
            return
        overlap = next((pair for pair in self.pairs if self._overlap(offsets, *pair)), None)
        if overlap is None:
            self.best = peak
            return
        a, b = overlap
        for lower, upper in ((a, b), (b, a)):
            raised = self._least(list(offsets), [*below, (lower, upper)])
            if raised is not None:
                self._decide(raised, [*below, (lower, upper)])

    def _too_high(self) -> int | None:
        """Return from which peak on a plan is of no use."""
        return self.below if self.best is None else self.best

    def _overlap(self, offsets: list[int], a: int, b: int) -> bool:
        return offsets[a] < offsets[b] + self.size[b] and offsets[b] < offsets[a] + self.size[a]

    def _least(self, offsets: list[int], below: list[tuple[int, int]]) -> list[int] | None:
        """Raise offsets to the least solution; None where there is none within reach."""
        # One after the other, each after a pin if need be and aligned, always fits below this.
        beyond = sum(self.size) + sum(self.alignment) + max([0, *self.pinned]) + 1
        # A contradiction may raise its tensors byte by byte; what is too high ends that sooner.
        beyond = min(beyond, self._too_high() or beyond)
        stable = False
        while not stable:
            stable = True
            for lower, upper in below:
                least = offsets[lower] + self.size[lower]
                if offsets[upper] < least:
                    stable = False
                    chain = self.chain_of[upper]
                    head = offsets[chain[0]] + least - offsets[upper]
                    if head > beyond or not self._raise_chain(offsets, chain, head):
                        return None
        return offsets

    def _raise_chain(self, offsets: list[int], chain: tuple[int, ...], head: int) -> bool:
        """Move a chain to its least aligned offset from ``head`` on; False if a pin forbids it."""
        while not self._aligned(chain, head):
            head += 1
        for tensor in chain:
            offsets[tensor] = head
            if self.pinned[tensor] not in (-1, head):
                return False
            head += self.size[tensor]
        return True

    def _aligned(self, chain: tuple[int, ...], head: int) -> bool:
        for tensor in chain:
            if head % self.alignment[tensor]:
                return False
            head += self.size[tensor]
        return True


def least_cost(problem: Problem) -> int | None:
    """Return the least cost of a plan within the capacity; None if there is none.

    Sets of pairs that pay come in the order of their cost; all other priced pairs are kept apart.
    """
    assert problem.capacity is not None
    prices = problem.reuse_prices.tolist()
    costs = {
        paid: sum(prices[index][2] for index in paid)
        for count in range(len(prices) + 1)
        for paid in combinations(range(len(prices)), count)
    }
    for paid in [tuple(range(len(prices))), *sorted(costs, key=lambda paid: costs[paid])]:
        kept = [(a, b) for index, (a, b, _) in enumerate(prices) if index not in paid]
        apart = problem.select(
            range(problem.tensor_count), reuse_prices=[], unsafe_pairs=[*unsafe(problem), *kept]
        )
        fits = optimal_peak(apart, problem.capacity + 1) is not None
        if fits == (len(paid) < len(prices)):
            return costs[paid] if fits else None
    return sum(price for _, _, price in prices)
