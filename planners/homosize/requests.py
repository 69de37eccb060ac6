"""Requests: the columns of tensors that spatio-temporal planning uses, and the static ones."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from planners.dynamic.static_part import is_dynamic
from planners.model.columns import IntColumn
from planners.model.problem import Problem
from planners.model.rules import MAX_TOTAL_BYTES
from planners.registry import UnsupportedProblemError


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests to an allocator, one entry each.

    Note: closed and half-open times. The paper's ``t_e`` is the last instant of a request, and two
    requests clash if they share an instant: Algorithm 1 demands ``end < t_s``, strictly. Here
    lifetimes are half-open: ``end`` is the first step without the request, and the same rule reads
    ``end <= start``. In a recorded trace every allocation and every free is a separate event, so
    the two numbers are never equal and the difference does not matter.
    """

    # int64, the index of the problem's tensor.
    tensor: IntColumn
    # int64 bytes, above 0; tensors of size 0 need no planning.
    size: IntColumn
    start: IntColumn
    end: IntColumn
    # int64, the computation phases of allocation and free.
    phase_start: IntColumn
    phase_end: IntColumn

    @property
    def count(self) -> int:
        return len(self.size)

    def select(self, chosen: NDArray[np.bool_] | IntColumn) -> Requests:
        """Return some of the requests, by a mask or by indices."""
        return Requests(*(column[chosen] for column in self._columns))

    def joined(self, other: Requests) -> Requests:
        """Return these requests, then those of another."""
        return Requests(*map(np.concatenate, zip(self._columns, other._columns, strict=True)))

    @property
    def _columns(self) -> list[IntColumn]:
        return [getattr(self, column.name) for column in fields(self)]


def static_requests(problem: Problem) -> Requests:
    """Return the requests of a problem that are not dynamic.

    Sizes are rounded up to the largest alignment, so that requests placed end to end are aligned.
    """
    tensor = np.flatnonzero((problem.size > 0) & ~is_dynamic(problem))
    unit = int(problem.alignment[tensor].max(initial=1))
    units = -(-problem.size[tensor] // unit)
    if int(units.sum()) * unit > MAX_TOTAL_BYTES:
        raise UnsupportedProblemError(
            f"alignment: groups lie end to end in multiples of the largest, and sizes rounded up "
            f"to {unit} bytes pass 2**61; use variant=best"
        )
    one_phase = np.zeros(len(tensor), dtype=np.int64)
    return Requests(
        tensor,
        units * unit,
        problem.start[tensor],
        problem.end[tensor],
        one_phase if problem.phase_start is None else problem.phase_start[tensor],
        one_phase if problem.phase_end is None else problem.phase_end[tensor],
    )


def require_plain_lifetimes(problem: Problem) -> None:
    """Raise if a problem has more than sizes, lifetimes, phases and alignment."""
    obstacles = (
        (not problem.lifetimes_decide, "pairs or several streams: groups are made of lifetimes"),
        (len(problem.contiguous) > 0, "contiguous chains: groups stack requests one by one"),
        (bool((problem.pinned >= 0).any()), "pinned tensors: groups are placed as a whole"),
        (len(problem.gaps) > 0, "gaps in lifetimes: a request has one start and one end"),
    )
    for found, reason in obstacles:
        if found:
            raise UnsupportedProblemError(reason)
