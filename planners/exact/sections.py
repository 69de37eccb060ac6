"""Lifetimes in steps of the sections at which the set of live tensors is maximal."""

from __future__ import annotations

from dataclasses import dataclass

from planners import _core
from planners.model.problem import Problem


@dataclass(frozen=True)
class Sections:
    """Sets of live tensors, each maximal among its neighbours, in the order of time.

    Two tensors are alive at one step exactly where they share a section, so nothing is lost and
    far fewer steps are left.
    """

    # Rows ``(tensor, first section, one past the last)`` of the tensors that have bytes.
    segments: list[tuple[int, int, int]]
    count: int

    def live_sets(self) -> list[list[int]]:
        """Return the live tensors of every section; without gaps, none lies within another."""
        live: list[list[int]] = [[] for _ in range(self.count)]
        for tensor, first, last in self.segments:
            for section in range(first, last):
                live[section].append(tensor)
        return live


def sections_of(problem: Problem) -> Sections:
    """Return the sections of a problem's lifetimes, less their gaps."""
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    first, last, count = _core.section_ranges(problem.tensor_count, rows)
    return Sections(
        list(zip(rows[:, 0].tolist(), first.tolist(), last.tolist(), strict=True)), count
    )
