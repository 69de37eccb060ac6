"""Stacks the blocks that there was no time to place, each with bytes of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planners.model.blocks import NOT_PINNED
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem

# Limits the peak of a stacked plan, in bytes, so that offsets do not overflow.
MOST_BYTES = 1 << 62


def stack_rest(problem: Problem, offsets: IntColumn, rest: NDArray[np.integer]) -> Plan | None:
    """Complete a plan: blocks that are not placed yet are stacked above the placed ones.

    This takes milliseconds for a million tensors: every block is padded to the strictest alignment
    of all, so no loop over blocks is needed.
    """
    blocks = problem.blocks
    heads = offsets[blocks.members[blocks.indptr[:-1]]]
    pinned = rest[blocks.pinned[rest] != NOT_PINNED]
    heads[pinned] = blocks.pinned[pinned]
    free = rest[blocks.pinned[rest] == NOT_PINNED]
    placed = np.ones(blocks.count, dtype=np.bool_)
    placed[free] = False
    top = int((heads + blocks.size)[placed].max(initial=0))
    strictest = int(blocks.modulus[free].max(initial=1))
    if top + int(blocks.size[free].sum()) + 2 * strictest * (len(free) + 1) > MOST_BYTES:
        return None
    padded = -(-(blocks.residue[free] + blocks.size[free]) // strictest) * strictest
    floor = -(-top // strictest) * strictest
    heads[free] = floor + np.cumsum(padded) - padded + blocks.residue[free]
    return Plan.of_blocks(problem, heads)
