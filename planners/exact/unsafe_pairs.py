"""Every unsafe pair of tensors of a small problem, one by one."""

from __future__ import annotations

import numpy as np

from planners.columns import IntColumn
from planners.core_instance import lifetimes_decide
from planners.problem import Problem
from planners.safety import unsafe_rows


def count_unsafe_pairs(problem: Problem) -> int:
    """Return the number of unsafe pairs, without listing them.

    Parameters
    ----------
    problem
        Any.

    Returns
    -------
    int
        An upper limit: pairs with a tensor without size may be counted.
    """
    return int(problem.core.unsafe_degrees().sum()) // 2


def list_unsafe_pairs(problem: Problem) -> IntColumn:
    """Return the pairs of tensors that may not share bytes.

    Parameters
    ----------
    problem
        One whose pairs fit memory, see :func:`count_unsafe_pairs`.

    Returns
    -------
    numpy.ndarray
        int64, rows ``(a, b)`` with ``a < b``, sorted, each once; both tensors have bytes.
    """
    if problem.unsafe_pairs is not None:
        pairs = np.unique(np.sort(problem.unsafe_pairs, axis=1), axis=0)
    elif lifetimes_decide(problem):
        pairs = _overlapping_lifetimes(problem)
    else:
        assert problem.graph is not None
        pairs = np.argwhere(np.triu(unsafe_rows(problem.graph).matrix(), k=1))
    return pairs[(problem.size[pairs] > 0).all(axis=1)]


def _overlapping_lifetimes(problem: Problem) -> IntColumn:
    """Sweep over the steps; a pair may meet in several segments and is listed once."""
    found: set[tuple[int, int]] = set()
    events = [(end, 0, tensor) for tensor, _, end in problem.segments().tolist()]
    events += [(start, 1, tensor) for tensor, start, _ in problem.segments().tolist()]
    live: set[int] = set()
    for _, starts, tensor in sorted(events):
        if not starts:
            live.remove(tensor)
            continue
        found.update((min(tensor, other), max(tensor, other)) for other in live)
        live.add(tensor)
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
