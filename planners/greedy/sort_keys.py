"""The orders in which greedy planners take the tensors, each as a sort key."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planners.model.blocks import Blocks
from planners.model.columns import IntColumn
from planners.model.problem import Problem, Safety
from planners.model.problem_fields import liveness

Key = NDArray[np.generic]
SortKey = Callable[[Problem], Key]


def by_size(problem: Problem) -> IntColumn:
    """Decreasing size; a chain counts with all its bytes (Greedy Size, Pisarchyk and Lee 2020)."""
    return -problem.blocks.size[problem.blocks.block_of]


def by_breadth(problem: Problem) -> IntColumn:
    """Decreasing breadth of the source: the bytes alive at its step (Greedy Breadth, there too)."""
    if problem.safety is Safety.PAIRS:
        return np.zeros(problem.tensor_count, dtype=np.int64)
    steps, live = liveness(problem)
    # The last change up to the start. Before the first change, index -1 yields the final 0.
    return -live[np.searchsorted(steps, problem.start, side="right") - 1]


def by_source(problem: Problem) -> IntColumn:
    """Increasing step of the source (Greedy Source, Lee et al. 2019)."""
    return problem.start


def by_unsafe(problem: Problem) -> IntColumn:
    """Decreasing number of unsafe pairs (Greedy Unsafe, Lamprou et al. 2023)."""
    return -problem.core.unsafe_degrees()


ORDERS: dict[str, SortKey] = {
    "size": by_size,
    "breadth": by_breadth,
    "source": by_source,
    "unsafe": by_unsafe,
}


def summary_of(order: str) -> str:
    """Return the summary of an order for lists of planners: the first clause of its docstring."""
    text = ORDERS[order].__doc__ or ""
    return text.partition(";")[0].partition(" (")[0].rstrip(".")


def block_order(blocks: Blocks, key: Key) -> IntColumn:
    """Return the blocks in the order of their most urgent member."""
    if not blocks.count:
        return np.empty(0, dtype=np.int64)
    urgent = np.minimum.reduceat(key[blocks.members], blocks.indptr[:-1])
    return np.argsort(urgent, kind="stable")
