"""Wrong by definition: unsafe tensors that share bytes; and a plan that makes such mistakes."""

from __future__ import annotations

import numpy as np

from planners.errors import InstanceError
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def unsafe_overlaps(problem: Problem, offsets: IntColumn) -> list[tuple[int, int]]:
    """Return the unsafe pairs of tensors that share bytes, of each pair the lower tensor first."""
    size, end = problem.size, offsets + problem.size
    pairs: list[tuple[int, int]] = []
    for tensor in np.flatnonzero(size).tolist():
        unsafe = problem.core.unsafe_with(tensor)
        unsafe = unsafe[unsafe > tensor]
        shared = (offsets[unsafe] < end[tensor]) & (offsets[tensor] < end[unsafe])
        pairs += [(tensor, other) for other in unsafe[shared & (size[unsafe] > 0)].tolist()]
    return pairs


def without_streams(problem: Problem) -> Problem:
    """Return a problem as a planner sees it that takes the global order for the only one.

    Its plans may let tensors share bytes that two streams need at the same time.
    """
    if problem.graph is None:
        raise InstanceError(
            f"{problem.name}: only of a graph can streams be ignored, found {problem.safety.value}"
        )
    start, end = problem.graph.lifetimes()
    return problem.select(
        np.arange(problem.tensor_count),
        start=start,
        end=end,
        capacity=None,
        name=f"{problem.name}, streams ignored",
    )
