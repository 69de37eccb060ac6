"""A planner that merges each chain into one tensor, to show the cost of merging."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from planners.greedy.place import Fit, place, place_in_objects
from planners.model.blocks import NOT_PINNED
from planners.model.budget import Budget
from planners.model.plan import Plan
from planners.model.problem import Problem
from planners.registry import UnsupportedProblemError, register


@register(
    "merged-chains",
    summary="Each chain as one tensor that has the unsafe pairs of all its members",
    source="Lamprou et al. 2023, section 4",
)
def merged_chains(
    problem: Problem,
    budget: Budget,
    order: Literal["size", "unsafe"] = "size",
    fit: Fit = "first",
    objects: bool = False,
) -> Plan:
    """Place blocks as if all members of a chain were needed whenever one of them is."""
    blocks = problem.blocks
    if (problem.alignment > 1).any() or (blocks.pinned != NOT_PINNED).any():
        raise UnsupportedProblemError("alignment or given offsets: a merged chain has neither")
    merged = Problem(blocks.size, unsafe_pairs=_merged_pairs(problem))
    algorithm = place_in_objects if objects else place
    return Plan.of_blocks(problem, algorithm(merged, order, fit, budget=budget).offsets)


def _merged_pairs(problem: Problem) -> NDArray[np.int64]:
    """Return the pairs of blocks of which some member of one is unsafe with one of the other."""
    pairs = np.sort(problem.blocks.block_of[problem.core.unsafe_pairs()], axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
