"""Lists every unsafe pair of tensors of a small problem."""

from __future__ import annotations

import numpy as np

from planners.exact.model_limits import require_room
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def list_unsafe_pairs(problem: Problem, most: int) -> IntColumn:
    """Return the unsafe pairs ``a < b`` of tensors of nonzero size, sorted."""
    require_unsafe_pairs(problem, most)
    return problem.core.unsafe_pairs()


def require_unsafe_pairs(problem: Problem, most: int) -> None:
    """Raise if a problem has more unsafe pairs, including those of tensors of size 0."""
    require_room("unsafe pairs", int(problem.core.unsafe_degrees().sum()) // 2, most)


def neighbourhoods(tensors: int, pairs: IntColumn) -> list[bytes]:
    """Return, for each tensor, a key for the set of the tensor and those it forms a pair with."""
    itself = np.repeat(np.arange(tensors)[:, None], 2, axis=1)
    both = np.concatenate((itself, pairs, pairs[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return [
        part.tobytes()
        for part in np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, tensors)))
    ]
