"""Live bytes: the memory that a problem's tensors need at each step of the global order."""

from __future__ import annotations

import numpy as np

from planners.model.columns import IntColumn
from planners.model.problem_fields import ProblemFields


def liveness(problem: ProblemFields) -> tuple[IntColumn, IntColumn]:
    """Return the steps at which the live bytes change, rising, and the bytes alive from each on."""
    tensor, start, end = problem.segments().T
    size = problem.size[tensor]
    steps, position = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.zeros(len(steps), dtype=np.int64)
    # Frees and allocations of one step are summed, because lifetimes are half-open.
    np.add.at(change, position, np.concatenate([size, -size]))
    return steps, np.cumsum(change)
