"""Rows that every plan within the capacity keeps: which priced pairs share bytes at least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.exact.cliques import list_unsafe_pairs
from planners.exact.model_limits import require_room
from planners.model.budget import Budget
from planners.model.columns import INT64_MAX, BoolColumn, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem

# Limits the tensors, of which each pair has an entry. A guess.
MOST_TENSORS = 1024
MOST_PAIRS = 8_000_000
# How many divisors a row of bytes tries: weights of its pairs, and those that demand a few pairs.
# Guesses.
DIVISORS = 12
FEW = 8
# How often the sets that are looked for fill the capacity, at most. A guess.
MOST_TIMES = 6
# A row is worth adding if what is chosen lacks this share of what it demands.
LEAST_LACK = 1e-3


@dataclass(frozen=True, eq=False)
class CostRow:
    """What priced pairs share bytes at least; Note [Rules of a certificate of cost] has the rules.

    With a divisor it is a row of bytes, of one set of tensors; without, a core of pairs.
    """

    least: int
    pairs: IntColumn
    weights: IntColumn
    tensors: tuple[int, ...]
    divisor: int | None

    def lack(self, chosen: NDArray[np.float64]) -> float:
        """Return the share that the chosen pairs lack of what the row demands."""
        return 1 - float(self.weights @ chosen[self.pairs]) / self.least


class PricedPairs:
    """The pairs of a problem that may share bytes at a price."""

    def __init__(self, problem: Problem) -> None:
        count = problem.tensor_count
        require_room("tensors", count, MOST_TENSORS)
        assert problem.capacity is not None
        self.problem, self.size, self.capacity = problem, problem.size, problem.capacity
        self.unsafe = list_unsafe_pairs(problem, MOST_PAIRS)
        self.is_unsafe = np.zeros((count, count), dtype=bool)
        self.is_unsafe[self.unsafe[:, 0], self.unsafe[:, 1]] = True
        self.is_unsafe |= self.is_unsafe.T
        a, b, self.price = problem.reuse_prices.T
        self.can_pay: BoolColumn = (self.size[a] > 0) & (self.size[b] > 0) & ~self.is_unsafe[a, b]
        # The number of each pair, or -1 for pairs that are unsafe or without a price.
        self.number = np.full((count, count), -1)
        own = np.flatnonzero(self.can_pay)
        self.number[a[own], b[own]] = self.number[b[own], a[own]] = own
        # Pairs that share no byte unless they pay.
        self.touches = self.is_unsafe | (self.number >= 0)
        # How often the heaviest set known so far fills the capacity.
        self._most_times = 1

    def cost(self, plan: Plan) -> int:
        """Return the prices of the pairs that share a byte in a plan."""
        a, b, _ = self.problem.reuse_prices.T
        begin, end = plan.offsets, plan.offsets + self.size
        return int(self.price[self.can_pay & (begin[a] < end[b]) & (begin[b] < end[a])].sum())

    def row_of_bytes(self, tensors: IntColumn, chosen: NDArray[np.float64]) -> CostRow | None:
        """Return the row of a set of touching tensors that the chosen pairs break most, if any."""
        total = int(self.size[tensors].sum())
        if total <= self.capacity:
            return None
        times = max(1, total // max(1, self.capacity))
        common = times * total - self.capacity * times * (times + 1) // 2
        first, second = np.triu_indices(len(tensors), 1)
        pairs = self.number[tensors[first], tensors[second]]
        smaller = np.minimum(self.size[tensors[first]], self.size[tensors[second]])
        weights = np.minimum(smaller[pairs >= 0], min(common, INT64_MAX))
        pairs = pairs[pairs >= 0]
        divisors = {1, *np.unique(weights)[-DIVISORS:].tolist()}
        divisors |= {max(1, (common - 1) // few) for few in range(1, FEW)}
        rows = [
            CostRow(-(-common // by), pairs, -(-weights // by), tuple(sorted(tensors.tolist())), by)
            for by in sorted(divisors)
        ]
        best = max(rows, key=lambda row: row.lack(chosen))
        return best if best.lack(chosen) > LEAST_LACK else None

    def core(self, kept: IntColumn) -> CostRow:
        """Return the row of priced pairs that no plan within the capacity keeps all apart."""
        a, b, _ = self.problem.reuse_prices[kept].T
        tensors = tuple(np.unique(np.concatenate((a, b))).tolist())
        return CostRow(1, kept, np.ones(len(kept), dtype=np.int64), tensors, None)

    def broken_rows(self, chosen: NDArray[np.float64], most: int, budget: Budget) -> list[CostRow]:
        """Return rows of bytes that the chosen pairs break, those that they break most first."""
        shared = np.where(self.number >= 0, chosen[self.number], 0.0)
        shared = shared * np.minimum(self.size[:, None], self.size[None, :])
        found: dict[tuple[int, ...], IntColumn] = {}
        times = 1
        while times <= self._most_times:
            size = times * self.size.astype(np.float64)
            for members in self._heavy_sets(size, shared, budget):
                found[tuple(np.sort(members))] = members
                often = int(self.size[members].sum()) // max(1, self.capacity)
                self._most_times = max(self._most_times, min(often, MOST_TIMES))
            times += 1
        rows = filter(None, (self.row_of_bytes(members, chosen) for members in found.values()))
        return sorted(rows, key=lambda row: -row.lack(chosen))[:most]

    def _heavy_sets(
        self, size: NDArray[np.float64], shared: NDArray[np.float64], budget: Budget
    ) -> Iterator[IntColumn]:
        """Yield sets of touching tensors with many bytes beside those that their pairs share.

        From each tensor on, the one that adds most is taken, also with some noise.
        """
        random = np.random.default_rng(0)
        for first in np.flatnonzero(self.size > 0).tolist():
            for noise in (0.0, 0.5):
                if budget.remaining_seconds() == 0:
                    return
                factor = 1 + noise * random.random(len(size))
                members, adds = [first], size - shared[first]
                open_ = self.touches[first] & (self.size > 0)
                while True:
                    gain = np.where(open_, adds * factor, 0)
                    best = int(gain.argmax())
                    if gain[best] <= 0:
                        break
                    members.append(best)
                    open_ &= self.touches[best]
                    adds = adds - shared[best]
                yield _without_losses(np.array(members), size, shared)


def _without_losses(
    members: IntColumn, size: NDArray[np.float64], shared: NDArray[np.float64]
) -> IntColumn:
    """Return a set without the tensors that share more bytes in it than they have."""
    while len(members) > 1:
        adds = size[members] - shared[np.ix_(members, members)].sum(axis=1)
        worst = int(adds.argmin())
        if adds[worst] >= 0:
            break
        members = np.delete(members, worst)
    return members
