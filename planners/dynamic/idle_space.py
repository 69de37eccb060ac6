"""The addresses of a static plan that are idle over spans of time, by one sweep over the plan.

Note: the sweep
---------------
Rationale. The simple way unites, for each span, the addresses of the tensors that live in it. That
costs a sort of the static tensors for every span.

Approach. The lowest and highest addresses of all tensors cut the addresses into cells. In each cell
the static tensors follow each other in time. A cell is idle over ``[begin, end)`` exactly if the
first of its tensors that ends after `begin` does not start before `end`. So the sweep takes spans
by descending `begin`. When `begin` falls below the end of a tensor, the tensor writes its start
into its cells, over the start of the tensor that follows it. The cells that then hold `end` or
more are idle over the span.

Cost. For n tensors (with gaps: pieces of them), c cells and s different spans: O(n log n) for
sorting, one array assignment a tensor, and one comparison of c numbers a span, that is O(n c + s c)
in the worst case with a very small constant (an array operation of c numbers), and c <= 2 n + 1. In
plans of training iterations c is a fraction of n, for offsets repeat. A tree over the cells would
answer in O(log c) for each interval it finds; it does not pay below some 10^5 cells.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from planners.model.columns import INT64_MAX, IntColumn
from planners.model.plan import Plan
from planners.model.problem import Problem


def idle_space(
    problem: Problem, plan: Plan, times: IntColumn
) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return the addresses that a plan leaves idle over each of several spans of time.

    The answer has distinct lists of intervals: the number of the list for each row of `times`, the
    beginning of each list in the intervals (CSR pointers), and the intervals as rows
    ``[start, end)`` of bytes within ``[0, peak)``, ascending and apart by at least a byte.

    Source: Huang et al. 2026, section 5.2, equations 3 to 5. Intervals here are half-open, and
    begin at 0 instead of the lowest planned address.
    """
    spans, row = np.unique(times, axis=0, return_inverse=True)
    row = row.reshape(-1)
    lists = _sweep(problem, plan, spans)
    number: dict[bytes, int] = {}
    distinct: list[IntColumn] = []
    space = np.empty(len(times), dtype=np.int64)
    for index, span in enumerate(row.tolist()):
        found = lists[span]
        key = found.tobytes()
        if key not in number:
            number[key] = len(distinct)
            distinct.append(found)
        space[index] = number[key]
    offsets = np.zeros(len(distinct) + 1, dtype=np.int64)
    np.cumsum([len(found) for found in distinct], out=offsets[1:])
    nothing = np.empty((0, 2), dtype=np.int64)
    return space, offsets, np.concatenate([nothing, *distinct])


def _sweep(problem: Problem, plan: Plan, spans: IntColumn) -> list[IntColumn]:
    """Return the idle intervals of each span; spans are ascending."""
    pieces = problem.segments()
    pieces = pieces[np.argsort(-pieces[:, 2], kind="stable")]
    tensor, start, end = pieces.T
    low = plan.offsets[tensor]
    high = low + problem.size[tensor]
    edges = np.unique(np.concatenate([low, high, [0, plan.peak]]))
    next_start = np.full(len(edges) - 1, INT64_MAX, dtype=np.int64)
    first_cell = np.searchsorted(edges, low).tolist()
    last_cell = np.searchsorted(edges, high).tolist()
    starts = start.tolist()
    # The number of pieces that end after each span begins; these pieces are the first ones.
    ended = np.searchsorted(-end, -spans[:, 0], side="left").tolist()
    found: list[IntColumn] = []
    for (done, todo), until in zip(
        pairwise([0, *reversed(ended)]), reversed(spans[:, 1].tolist()), strict=True
    ):
        for piece in range(done, todo):
            next_start[first_cell[piece] : last_cell[piece]] = starts[piece]
        found.append(_runs(next_start >= until, edges))
    return found[::-1]


def _runs(idle: np.ndarray[tuple[int], np.dtype[np.bool_]], edges: IntColumn) -> IntColumn:
    changes = np.flatnonzero(np.diff(idle, prepend=False, append=False))
    return edges[changes].reshape(-1, 2)
