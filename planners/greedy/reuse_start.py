"""The search of reuse, as it begins from a plan or from nothing."""

from __future__ import annotations

import numpy as np

from planners import _core
from planners.model.columns import IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem

# Limits the blocks of a problem: the search keeps a link for each unsafe or priced pair. A guess.
MOST_BLOCKS = 5_000
OUT = -1


def reuse_search(
    problem: Problem, ranges: IntColumn, plan: Plan | None, seed: int
) -> _core.ReuseSearch:
    """Return the search for the least cost, whose blocks outside of their ranges are out.

    Note [Ruin and recreate] in ``reuse_search.h`` describes it.
    """
    blocks = problem.blocks
    heads = np.where(blocks.size > 0, OUT, blocks.lowest)
    if plan is not None:
        heads = plan.offsets[blocks.members[blocks.indptr[:-1]]]
    return _core.ReuseSearch(problem.core.with_rows(), problem.reuse_prices, ranges, heads, seed)
