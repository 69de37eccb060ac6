"""A plan where there was no time for a better one: every block has bytes of its own."""

from __future__ import annotations

import numpy as np

from planners.blocks import NOT_PINNED
from planners.greedy.attempts import Attempts
from planners.plan import Plan

MOST_BYTES = 1 << 62


def offer_without_reuse(attempts: Attempts) -> bool:
    """Offer a plan in which no two blocks share a byte, in milliseconds for a million tensors.

    Unlike the planner ``naive`` it pads every block to the strictest alignment of all, so that no
    loop over blocks is needed.

    Parameters
    ----------
    attempts
        Where the plan goes.

    Returns
    -------
    bool
        Whether there is such a plan: pins leave none, nor do alignments beyond any memory.
    """
    problem, blocks = attempts.problem, attempts.problem.blocks
    if (blocks.pinned != NOT_PINNED).any():
        return False
    strictest = int(blocks.modulus.max(initial=1))
    if int(blocks.size.sum()) + 2 * strictest * blocks.count > MOST_BYTES:
        return False
    padded = -(-(blocks.residue + blocks.size) // strictest) * strictest
    heads = np.cumsum(padded) - padded + blocks.residue
    attempts.offer(Plan.of_blocks(problem, heads), "no reuse")
    return True
