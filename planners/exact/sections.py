"""Lifetimes in steps of the sections at which the set of live tensors is maximal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planners.problem import Problem


@dataclass(frozen=True)
class Sections:
    """Sets of live tensors, each maximal among its neighbours, in the order of time.

    Two tensors are alive at one step exactly where they share a section, so nothing is lost and
    far fewer steps are left.

    Parameters
    ----------
    segments
        Rows ``(tensor, first section, one past the last)`` of the tensors that have bytes.
    count
        Number of sections.
    """

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
    """Return the sections of a problem's lifetimes, less their gaps.

    Parameters
    ----------
    problem
        With lifetimes, given or from its graph.

    Returns
    -------
    Sections
        See there.
    """
    rows = problem.segments()
    rows = rows[problem.size[rows[:, 0]] > 0]
    # Frees come before allocations of the same step: lifetimes are half-open.
    steps = np.concatenate([rows[:, 2], rows[:, 1]])
    kinds = np.repeat([0, 1], len(rows))
    first, last = [0] * len(rows), [0] * len(rows)
    section, grown = 0, False
    for event in np.lexsort((kinds, steps)).tolist():
        if event >= len(rows):
            first[event - len(rows)] = section
            grown = True
            continue
        # The first free after an allocation ends a set that nothing contains.
        section += grown
        grown = False
        last[event] = section
    return Sections(list(zip(rows[:, 0].tolist(), first, last, strict=True)), section)
