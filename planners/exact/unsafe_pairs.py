"""Every unsafe pair of tensors of a small problem, one by one."""

from __future__ import annotations

import numpy as np

from planners.exact.model_limits import require_room
from planners.model.columns import IntColumn
from planners.model.problem import Problem


def list_unsafe_pairs(problem: Problem, most: int) -> IntColumn:
    """Return the pairs ``a < b`` of tensors with bytes that may not share any, sorted."""
    require_unsafe_pairs(problem, most)
    return problem.core.unsafe_pairs()


def require_unsafe_pairs(problem: Problem, most: int) -> None:
    """Raise where a problem has more unsafe pairs; those of tensors without bytes count as well."""
    require_room("unsafe pairs", int(problem.core.unsafe_degrees().sum()) // 2, most)


def neighbourhoods(tensors: int, pairs: IntColumn) -> list[bytes]:
    """Return, for each tensor, one key for the set of those it shares a pair with and itself."""
    itself = np.repeat(np.arange(tensors)[:, None], 2, axis=1)
    both = np.concatenate((itself, pairs, pairs[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return [
        part.tobytes()
        for part in np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, tensors)))
    ]
