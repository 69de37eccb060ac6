"""Naive allocation: no two tensors share a byte."""

from __future__ import annotations

import numpy as np

from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, register


@register(
    "naive",
    summary="Every block after the one before; no reuse",
    source="Lamprou et al. 2023, tables 2 and 3",
)
def naive(problem: Problem, _budget: Budget) -> Plan:
    """Place every block after the one before; the peak is the sum of all sizes and paddings."""
    blocks = problem.blocks
    if (blocks.pinned != NOT_PINNED).any():
        raise UnsupportedProblemError("pinned tensors: a plan without reuse has no place for them")
    if (blocks.modulus == 1).all():
        heads = np.cumsum(blocks.size) - blocks.size
    else:
        heads = np.empty(blocks.count, dtype=np.int64)
        end = 0
        columns = (blocks.modulus.tolist(), blocks.residue.tolist(), blocks.size.tolist())
        for block, (modulus, residue, size) in enumerate(zip(*columns, strict=True)):
            heads[block] = end + (residue - end) % modulus
            end = int(heads[block]) + size
    return Plan.of_blocks(problem, heads)
