"""Figures of a page, each with the reason why it cannot be true where it cannot.

Note: a page is written by nobody's eyes
----------------------------------------
Rationale. A page is long, made by a command and committed as it is, so a figure against common
sense stands there until a reader stumbles over it. What rules it out is known where it is made.

Approach. What no measurement can say is stated as a rule, not as a limit that someone chose. No
plan is below a lower bound, so no gap is below 0. A planner that searches is never above a greedy
one that is at hand, for it could have answered with that plan. A cell of a table is text, or a
figure that carries its fault; `Page.table` raises for the first fault that it meets.

Limits. Times, and what the paper or others printed, are taken as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planners import Problem, place

# Below this a gap would print as none.
SMALLEST_GAP = 5e-7


@dataclass(frozen=True)
class Figure:
    """What a cell says, and why that cannot be true."""

    text: str
    # Empty for a figure that can be true.
    fault: str = ""

    def __str__(self) -> str:
        return self.text

    def and_then(self, text: str) -> Figure:
        """Return a cell that says more behind the figure."""
        return Figure(self.text + text, self.fault)


def gap(
    peak: float,
    bound: float,
    greedy: float | None = None,
    *,
    digits: int = 4,
) -> Figure:
    """Return how far a peak is above a lower bound.

    ``greedy`` is the peak of a greedy plan, given for a planner that searches.
    """
    return Figure(percent_above(peak, bound, digits), _fault(peak, bound, greedy))


def greedy_peak(problem: Problem) -> int:
    """Return the peak of ``greedy-size-first``, which is always at hand."""
    return place(problem, "size", "first").peak


def percent_above(value: float, reference: float, digits: int = 4) -> str:
    """Return by how much a value is above a reference, or below it with a minus."""
    if reference == 0:
        return "0 %" if value == 0 else "-"
    share = value / reference - 1
    if share == 0:
        return "0 %"
    return f"{share:.{digits}%}" if abs(share) >= SMALLEST_GAP else "<0.0001%"


def percent(share: float) -> str:
    """Return a share with three digits, or as a whole number where it is none or all."""
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    return f"{share:.3%}".replace("%", " %")


def _fault(peak: float, bound: float, greedy: float | None) -> str:
    if not (math.isfinite(peak) and math.isfinite(bound)):
        return f"a peak and a bound are finite, found {peak} and {bound}"
    if peak < bound:
        return f"no plan is below a lower bound, found a peak of {peak:,} and a bound of {bound:,}"
    if greedy is not None and peak > greedy:
        return (
            f"a planner that searches is never above a greedy one, found a peak of {peak:,} "
            f"where a greedy plan has {greedy:,}"
        )
    return ""
