"""The packing of rows: weights that prove a cost by exact arithmetic, and what it chooses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.exact.least_cost.cost_rows import CostRow, PricedPairs

# The largest weight in a file, and a cost that no plan has, for pairs that no plan chooses.
MOST_WEIGHT = (1 << 63) - 1
ENDLESS = 1 << 60
# A smaller share of a row is rounding.
LEAST_SHARE = 1e-7


@dataclass(frozen=True, eq=False)
class Packing:
    """Weights of rows, divided by ``per``, and the least cost that they prove."""

    per: int
    weights: dict[int, int]
    # The share of each pair that pays at least cost.
    chosen: NDArray[np.float64]
    # What the cost is at least.
    cost: int


def pack(
    pairs: PricedPairs,
    rows: Sequence[CostRow],
    pays: Mapping[int, bool],
    seconds: float,
) -> Packing:
    """Return the packing of the largest proven cost, where some pairs pay and others do not.

    Raises ``TimeoutError`` if the solver needs more time.
    """
    if not rows:
        return Packing(1, {}, np.zeros(len(pairs.price)), proven_cost(pairs, rows, 1, {}, pays))
    # Imported here, because SciPy takes long to import.
    from scipy import optimize

    solver: Any = optimize
    lower, upper = np.zeros(len(pairs.price)), pairs.can_pay.astype(np.float64)
    for pair, does in pays.items():
        lower[pair] = upper[pair] = float(does)
    matrix = matrix_of(pairs, rows)
    options = {"time_limit": seconds} if math.isfinite(seconds) else {}
    # A share that no choice of pairs can fill is to cost more than all pairs.
    lack, share = float(pairs.price.sum()) + 1, 1.0
    while True:
        found = solver.linprog(
            np.append(pairs.price.astype(np.float64), lack / share), -matrix, -np.ones(len(rows)),
            bounds=np.column_stack((np.append(lower, 0), np.append(upper, 1))),
            method="highs", options=options,
        )  # fmt: skip
        if found.x is None:
            raise TimeoutError("the time limit passed before the solver packed the rows")
        if found.x[-1] < LEAST_SHARE or found.x[-1] >= share:
            break
        share = float(found.x[-1])
    # Any number is exact; this one leaves ten digits and more to the weights.
    per = max(1, (1 << 50) // int(pairs.price.max()))
    weights = {
        row: min(weight, MOST_WEIGHT)
        for row, dual in enumerate((-found.ineqlin.marginals).tolist())
        if (weight := int(dual * per / rows[row].least)) > 0
    }
    return Packing(per, weights, found.x[:-1], proven_cost(pairs, rows, per, weights, pays))


def matrix_of(pairs: PricedPairs, rows: Sequence[CostRow]) -> Any:
    """Return rows as SciPy's matrix, divided by what they demand; the last column is the lack."""
    from scipy.sparse import csr_array

    lengths = np.array([len(row.pairs) + 1 for row in rows])
    last = len(pairs.price)
    columns = np.concatenate([np.append(row.pairs, last) for row in rows])
    factors = np.concatenate([np.append(row.weights / row.least, 1.0) for row in rows])
    return csr_array(
        (factors, columns, np.append(0, np.cumsum(lengths))), shape=(len(rows), last + 1)
    )


def proven_cost(
    pairs: PricedPairs,
    rows: Sequence[CostRow],
    per: int,
    weights: Mapping[int, int],
    pays: Mapping[int, bool],
) -> int:
    """Return the least cost that weights prove, as a multiple of what divides all prices."""
    least = sum(weight * rows[row].least for row, weight in weights.items())
    sums: dict[int, int] = {}
    for row, weight in weights.items():
        for pair, factor in zip(rows[row].pairs.tolist(), rows[row].weights.tolist(), strict=True):
            sums[pair] = sums.get(pair, 0) + weight * factor
    for pair in sums.keys() | pays.keys():
        rest = per * int(pairs.price[pair]) - sums.get(pair, 0)
        if pays.get(pair) or (pair not in pays and rest < 0):
            least += rest
    divisor = int(np.gcd.reduce(pairs.price))
    return min(ENDLESS, max(0, -(-least // (per * divisor)) * divisor))
