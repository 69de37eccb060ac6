"""HomoLayer groups: dynamic tensors that the same layers allocate and free, and their times.

Note: visits
------------
Rationale. The paper groups dynamic requests by the layer that allocates and the layer that frees
them, and takes the time from the start of the first to the end of the second. But a layer runs once
in the forward and once in the backward pass of each microbatch. The time from its first run to its
last is most of the iteration, in which hardly a byte of the static plan stays idle.

Approach. A visit is a layer within one phase. A group is a pair of visits, so that each microbatch,
forward or backward, has groups of its own. A visit lasts from the first to the last step in which
the layer allocates or frees static or dynamic memory, both steps included. If a layer runs more
than once within one phase, as a shared layer does, its visit is the hull of these runs: the number
of runs may depend on the data, the phases do not.

If the layer is not known (the column is absent or below 0), static events give the position of the
program. Between two steps that allocate or free static memory no static memory changes, so all
dynamic events between them form one visit. Its number is the number of static steps before it,
which a run-time allocator can count, and it lasts from one static step to the next. A finer
grouping would have the same idle addresses.

Limits. The start and the end of a layer are taken from its memory events. This suffices, because
the layer has no memory events outside of these steps. In a program whose order of static events
varies, visits cannot be recognised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners.dynamic.static_part import is_dynamic
from planners.model.columns import IntColumn
from planners.model.problem import Problem

NO_LAYER = -1


@dataclass(frozen=True, eq=False)
class LayerGroups:
    """The groups of the dynamic tensors of a problem."""

    # int64, one row a group, ascending and distinct: ``(layer, phase)`` of the visit that
    # allocates, then of the visit that frees. If the layer is not known, it is -1, and the number
    # of static steps before the visit stands for the phase.
    visits: IntColumn
    # int64, rows ``[begin, end)`` in steps: from the first step of the visit that allocates to the
    # last step of the visit that frees, which is included.
    times: IntColumn
    # int64, the dynamic tensors, ascending.
    tensors: IntColumn
    # int64, the group of each dynamic tensor.
    group: IntColumn


def layer_groups(problem: Problem) -> LayerGroups:
    """Return the groups of the dynamic tensors of a problem.

    Source: Huang et al. 2026, section 5.2, equation 2.
    """
    tensors = np.flatnonzero(is_dynamic(problem))
    boundaries = _static_steps(problem)
    tensor_count = problem.tensor_count
    steps = np.concatenate([problem.start, problem.end])
    visits = np.column_stack(
        [
            np.concatenate([_layer(problem, "layer_start"), _layer(problem, "layer_end")]),
            np.concatenate([_phase(problem, "phase_start"), _phase(problem, "phase_end")]),
        ]
    )
    unknown = visits[:, 0] == NO_LAYER
    visits[unknown, 1] = np.searchsorted(boundaries, steps[unknown], side="right")
    distinct, visit = _distinct_rows(visits)
    first, last = _first_and_last(distinct, visit, steps, boundaries)
    pairs = np.column_stack([visit[tensors], visit[tensor_count + tensors]])
    occurring, group = _distinct_rows(pairs)
    allocates, frees = occurring.T
    return LayerGroups(
        visits=np.hstack([distinct[allocates], distinct[frees]]),
        times=np.column_stack([first[allocates], last[frees] + 1]),
        tensors=tensors,
        group=group,
    )


def _static_steps(problem: Problem) -> IntColumn:
    """Return the steps in which static memory is allocated or freed, also by gaps, ascending."""
    segments = problem.segments()
    segments = segments[~is_dynamic(problem)[segments[:, 0]]]
    return np.unique(segments[:, 1:])


def _distinct_rows(rows: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Return the distinct rows of two numbers, ascending, and the index of each row in them."""
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    ascending = rows[order]
    is_new = (ascending[1:] != ascending[:-1]).any(axis=1)
    index = np.empty(len(rows), dtype=np.int64)
    index[order] = np.cumsum(np.concatenate([[0], is_new]))[: len(rows)]
    return ascending[np.concatenate([[True], is_new])[: len(rows)]], index


def _first_and_last(
    visits: IntColumn, visit: IntColumn, steps: IntColumn, boundaries: IntColumn
) -> tuple[IntColumn, IntColumn]:
    first = np.full(len(visits), np.iinfo(np.int64).max)
    last = np.full(len(visits), np.iinfo(np.int64).min)
    np.minimum.at(first, visit, steps)
    np.maximum.at(last, visit, steps)
    # A visit without a layer lasts from the static step before it to the one after it, if any.
    between = visits[:, 0] == NO_LAYER
    number = visits[:, 1]
    begun = between & (number > 0)
    first[begun] = boundaries[number[begun] - 1]
    ended = between & (number < len(boundaries))
    last[ended] = boundaries[number[ended]] - 1
    return first, last


def _layer(problem: Problem, field: str) -> IntColumn:
    column: IntColumn | None = getattr(problem, field)
    if column is None:
        return np.full(problem.tensor_count, NO_LAYER, dtype=np.int64)
    return np.maximum(column, NO_LAYER)


def _phase(problem: Problem, field: str) -> IntColumn:
    column: IntColumn | None = getattr(problem, field)
    return np.zeros(problem.tensor_count, dtype=np.int64) if column is None else column.copy()
