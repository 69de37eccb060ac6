"""A subproblem: some blocks are placed anew around others that keep their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.core_instance import lifetimes_decide
from planners.model.plan import Plan
from planners.model.problem import Problem


class Subproblem:
    """The part of a problem that matters if only some blocks may move.

    Tensors that are unsafe with a moving block are pinned; all others cannot matter and are left
    out.
    """

    def __init__(
        self, whole: Problem, free: Sequence[int], heads: IntColumn, capacity: int
    ) -> None:
        blocks = whole.blocks
        self._blocks = np.array([b for b in free if blocks.pinned[b] == NOT_PINNED], dtype=np.int64)
        length = np.diff(blocks.indptr)[self._blocks]
        # The moving tensors come first, block by block.
        self._first = np.cumsum(length) - length
        entries = np.repeat(blocks.indptr[self._blocks] - self._first, length)
        moving = blocks.members[entries + np.arange(len(entries))]
        unsafe = [whole.core.unsafe_with(tensor) for tensor in moving.tolist()]
        others = np.concatenate([moving[:0], *unsafe])
        is_around = np.zeros(whole.tensor_count, dtype=np.bool_)
        is_around[others] = True
        is_around[moving] = False
        offset = np.empty(whole.tensor_count, dtype=np.int64)
        offset[blocks.members] = np.repeat(heads, np.diff(blocks.indptr)) + blocks.before
        still = np.flatnonzero(is_around & (whole.size > 0) & (offset < capacity))
        tensors = np.concatenate([moving, still])
        self.problem = whole.select(
            tensors,
            # A pinned tensor that reaches above the capacity is cut there.
            size=np.concatenate(
                [whole.size[moving], np.minimum(whole.size[still], capacity - offset[still])]
            ),
            contiguous=[
                np.arange(first, first + members)
                for first, members in zip(self._first.tolist(), length.tolist(), strict=True)
                if members > 1
            ],
            pinned=np.concatenate([np.full(len(moving), NOT_PINNED), offset[still]]),
            capacity=capacity,
            tensor_name=None,
            name=f"{whole.name}: window",
            **_safety(whole, tensors, others, np.array([len(row) for row in unsafe], np.int64)),
        )

    def write_heads(self, plan: Plan, heads: IntColumn) -> None:
        """Write the heads of the moving blocks from a plan of the subproblem."""
        heads[self._blocks] = plan.offsets[self._first]


def _safety(
    whole: Problem, tensors: IntColumn, others: IntColumn, counts: IntColumn
) -> dict[str, Any]:
    """Return the fields that decide safety, given each moving tensor's unsafe ``others``."""
    if lifetimes_decide(whole):
        return {"start": whole.start[tensors], "end": whole.end[tensors]}
    # The pinned tensors were placed together before, so only pairs with moving tensors matter.
    place = np.full(whole.tensor_count, -1, dtype=np.int64)
    place[tensors] = np.arange(len(tensors))
    pairs = np.column_stack((np.repeat(np.arange(len(counts)), counts), place[others]))
    return {"unsafe_pairs": pairs[pairs[:, 1] >= 0]}
