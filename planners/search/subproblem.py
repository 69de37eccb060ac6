"""A part of a problem: some blocks to place anew, around others that stay where they are."""

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
    """What is left of a problem where only some blocks may move.

    Tensors that are unsafe with one of these are pinned; all others cannot matter and are left
    out.
    """

    def __init__(
        self, whole: Problem, free: Sequence[int], heads: IntColumn, capacity: int
    ) -> None:
        blocks = whole.blocks
        self._blocks = [block for block in free if blocks.pinned[block] == NOT_PINNED]
        self._members = [
            blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]].tolist()
            for block in self._blocks
        ]
        moving = [tensor for members in self._members for tensor in members]
        unsafe = {tensor: whole.core.unsafe_with(tensor).tolist() for tensor in moving}
        around = set().union(*unsafe.values()).difference(moving)
        offset = {tensor: _offset_of(whole, tensor, heads) for tensor in around}
        still = sorted(t for t in around if whole.size[t] > 0 and offset[t] < capacity)
        tensors = np.array([*moving, *still], dtype=np.int64)
        self._place = {tensor: place for place, tensor in enumerate(tensors.tolist())}
        size = whole.size[tensors].copy()
        for tensor in still:
            place = self._place[tensor]
            size[place] = min(int(size[place]), capacity - offset[tensor])
        self.problem = Problem(
            size,
            alignment=whole.alignment[tensors],
            contiguous=[
                [self._place[tensor] for tensor in members]
                for members in self._members
                if len(members) > 1
            ],
            pinned={self._place[tensor]: offset[tensor] for tensor in still},
            capacity=capacity,
            name=f"{whole.name}: window",
            **self._safety(whole, tensors, unsafe),
        )

    def _safety(
        self, whole: Problem, tensors: IntColumn, unsafe: dict[int, list[int]]
    ) -> dict[str, Any]:
        if not lifetimes_decide(whole):
            # What stays was placed together, so only pairs with what moves are asked.
            pairs = [
                (self._place[tensor], self._place[other])
                for tensor, others in unsafe.items()
                for other in others
                if other in self._place
            ]
            return {"unsafe_pairs": pairs}
        gaps = [
            (self._place[tensor], start, end)
            for tensor, start, end in whole.gaps.tolist()
            if tensor in self._place
        ]
        return {"start": whole.start[tensors], "end": whole.end[tensors], "gaps": gaps}

    def write_heads(self, plan: Plan, heads: IntColumn) -> None:
        """Move the free blocks of the whole to where a plan of the part has them."""
        for block, members in zip(self._blocks, self._members, strict=True):
            heads[block] = plan.offsets[self._place[members[0]]]


def _offset_of(whole: Problem, tensor: int, heads: IntColumn) -> int:
    blocks = whole.blocks
    block = int(blocks.block_of[tensor])
    members = blocks.members[blocks.indptr[block] : blocks.indptr[block + 1]].tolist()
    before = blocks.before[blocks.indptr[block] + members.index(tensor)]
    return int(heads[block] + before)
