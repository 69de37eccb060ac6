"""Lifetimes in sections: the steps at which the set of live tensors is maximal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners import _core
from planners.model.columns import IntColumn
from planners.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Sections:
    """Sets of live tensors, each maximal among its neighbours, in the order of time.

    Two tensors are alive at one step if and only if they share a section. So no unsafe pair is
    lost, and far fewer steps are left.
    """

    # Rows ``(tensor, first section, one past the last)`` of the tensors of nonzero size, sorted by
    # tensor and section.
    segments: IntColumn
    count: int

    @property
    def member_count(self) -> int:
        """Number of live tensors, summed over all sections."""
        return int((self.segments[:, 2] - self.segments[:, 1]).sum())

    def live_sets(self) -> list[IntColumn]:
        """Return the live tensors of every section; without gaps, none contains another."""
        if not self.count:
            return []
        tensor, first, last = self.segments.T
        length = last - first
        begin = np.cumsum(length) - length
        section = np.arange(length.sum()) + np.repeat(first - begin, length)
        order = np.argsort(section, kind="stable")
        borders = np.searchsorted(section[order], np.arange(1, self.count))
        return np.split(np.repeat(tensor, length)[order], borders)


def sections_of(problem: Problem) -> Sections:
    """Return the sections of a problem's lifetimes, less their gaps."""
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    first, last, count = _core.section_ranges(problem.tensor_count, rows)
    return Sections(np.column_stack((rows[:, 0], first, last)), count)
