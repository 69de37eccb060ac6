"""Tie orders: which block comes next among several that can lie equally low."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planners.exact.branch_and_bound.branch_and_bound import ORDERS
from planners.exact.common_unit import ScaledBlocks
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety

TieOrder = tuple[str, ...]

# CP-SAT gets the order before anything is placed, when "left" and "total" are the same.
TIE_ORDERS: tuple[TieOrder, ...] = tuple(
    dict.fromkeys(tuple(key.replace("left", "total") for key in order) for order in ORDERS)
)


def blocks_in_order(
    problem: Problem, scaled: ScaledBlocks, cliques: Sequence[IntColumn], order: TieOrder
) -> IntColumn:
    """Return all blocks sorted by the keys of an order, over sections or other cliques."""
    tensors = problem.tensor_count
    total, count = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    first, last = np.full(tensors, len(cliques)), np.zeros(tensors, dtype=np.int64)
    for index, clique in enumerate(cliques):
        total[clique] = np.maximum(total[clique], scaled.tensor_size[clique].sum())
        count[clique] += 1
        first[clique] = np.minimum(first[clique], index)
        last[clique] = index
    # As floats: the difference of two steps may exceed an int64.
    lifetime = problem.end.astype(np.float64) - problem.start
    if problem.safety is Safety.PAIRS:
        lifetime = count.astype(np.float64)
    keys = {
        "total": -_of_blocks(np.maximum, problem, total),
        "sections": -_of_blocks(np.add, problem, count),
        "lifetime": -_of_blocks(np.add, problem, lifetime),
        "area": -_of_blocks(np.add, problem, lifetime * scaled.tensor_size),
        "size": -scaled.size,
        "early start": _of_blocks(np.minimum, problem, first),
        "late start": -_of_blocks(np.minimum, problem, first),
        "early end": _of_blocks(np.maximum, problem, last),
        "late end": -_of_blocks(np.maximum, problem, last),
    }
    return np.lexsort([keys[name] for name in reversed(order)])


def _of_blocks(reduce: np.ufunc, problem: Problem, column: np.ndarray) -> np.ndarray:
    """Reduce a column with one entry for each tensor to one entry for each block."""
    blocks = problem.blocks
    if not blocks.count:
        return column
    return reduce.reduceat(column[blocks.members], blocks.indptr[:-1])
