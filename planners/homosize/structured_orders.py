"""Orders that keep the paper's structure but place every request on its own.

Note: bubbles of groups, and orders that fill them
--------------------------------------------------
Rationale. A group stands for one request from its first allocation to its last free, so no other
request can use its parts while they are free. A layer is closed as well: a larger request cannot
lie across two layers. The paper calls both bubbles. The structure helps without these restrictions
too. First fit of single requests in the order that the structure gives places groups end to end and
sizes in layers as before, and lets later requests into the bubbles.

Approach. No plan meets the bound unless the requests alive at the tightest step lie end to end. So
they come first; among them the structure decides. The rest follows as in HomoSize layers: by
falling size, then by start.

- *layers*: the tightest requests by size and start, as in global planning. They are those of one
  tightest step, which a bound names; nothing else has to be computed.
- *areas*: the requests of every tightest step, largest byte-steps first: large, long-lived requests
  lie lowest.
- *groups*: the same requests, HomoPhase group after HomoPhase group, the group with the most
  byte-steps first, and by size and start within a group.

Limits. None of the orders is guaranteed to meet the bound; a planner that wants more tries others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planners.greedy.pressure import pressures
from planners.greedy.sort_keys import block_order
from planners.model.bounds import Bound
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def structured_orders(problem: Problem, bound: Bound) -> Iterator[tuple[str, IntColumn]]:
    """Yield orders of the blocks that follow HomoPhase groups and HomoSize layers."""
    by_layer = _by_layer(problem)
    first = np.zeros(problem.tensor_count, dtype=np.bool_)
    first[bound.witness] = True
    yield "layers", _blocks(problem, _first_then(first, by_layer, by_layer))
    tightness = pressures(problem)
    first |= tightness == tightness.max(initial=0)
    area = _byte_steps(problem)
    by_area = np.argsort(-area, kind="stable")
    yield "areas", _blocks(problem, _first_then(first, by_area, by_layer))
    if problem.phase_start is None or problem.phase_end is None:
        return
    _, group = np.unique(
        np.column_stack([problem.phase_start, problem.phase_end]), axis=0, return_inverse=True
    )
    total = np.bincount(group[first], weights=area[first], minlength=int(group.max(initial=0)) + 1)
    key = np.column_stack([-total[group], group])[by_layer]
    by_group = by_layer[np.lexsort((key[:, 1], key[:, 0]))]
    yield "groups", _blocks(problem, _first_then(first, by_group, by_layer))


def address_order(problem: Problem, offsets: IntColumn) -> IntColumn:
    """Return the blocks of a plan from low to high addresses.

    First fit in this order never raises a block: the blocks below it have sunk or stayed, so its
    own place is free.
    """
    return block_order(problem.blocks, offsets)


def _by_layer(problem: Problem) -> IntColumn:
    """Return the tensors by falling size, then by start."""
    by_start = np.argsort(problem.start, kind="stable")
    return by_start[np.argsort(-problem.size[by_start], kind="stable")]


def _byte_steps(problem: Problem) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    # Bytes times steps may exceed an int64; ties among huge areas do no harm.
    return problem.size.astype(np.float64) * (problem.end - problem.start)


def _first_then(first: np.ndarray, one: IntColumn, other: IntColumn) -> IntColumn:
    return np.concatenate([one[first[one]], other[~first[other]]])


def _blocks(problem: Problem, tensors: IntColumn) -> IntColumn:
    if not len(problem.contiguous):
        return tensors
    rank = np.empty(len(tensors), dtype=np.int64)
    rank[tensors] = np.arange(len(tensors))
    return block_order(problem.blocks, rank)
