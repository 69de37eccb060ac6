"""The performance profile: on what share of the instances a planner is within so much of the best.

After Dolan & Moré 2002: the higher a line, the better its planner, and where it begins is how often
that one is the best itself. A run without a plan is within nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from evaluation.report.cases import Case, by_planner
from evaluation.report.drawing import Look, line_figure

# Of the axis, on which smaller gaps are as none.
LEAST_GAP = 1e-4


@dataclass(frozen=True)
class ProfileLine:
    """The gaps of one planner, sorted; infinite where it has no plan."""

    gaps: NDArray[np.float64]

    def share_within(self, gap: float) -> float:
        """Return the share of instances on which the planner is at most so far above the best."""
        return float((self.gaps <= gap).mean())


def profile_lines(cases: Sequence[Case]) -> dict[str, ProfileLine]:
    """Return the line of each planner, the one that is best most often first.

    Only instances count that some planner has a plan of.
    """
    counted = [case for case in cases if case.has_plans and case.facts.best_known is not None]
    lines = {
        label: ProfileLine(
            np.sort([np.inf if case.gaps.to_best is None else case.gaps.to_best for case in its])
        )
        for label, its in by_planner(counted).items()
    }
    return dict(sorted(lines.items(), key=lambda entry: _rank(entry[1]), reverse=True))


def _rank(line: ProfileLine) -> list[float]:
    return [line.share_within(gap) for gap in (0.0, 0.001, 0.01, 0.1, 1.0)]


def profile_figure(lines: Mapping[str, ProfileLine], looks: Mapping[str, Look]) -> Figure:
    """Return the picture of the lines of :func:`profile_lines`."""
    finite = [gap for line in lines.values() for gap in line.gaps.tolist() if np.isfinite(gap)]
    widest = max(10 * LEAST_GAP, 1.2 * max(finite, default=0.0))

    def draw(axes: Any, label: str, look: Look) -> None:
        line = lines[label]
        at = np.unique(np.concatenate([[0.0], line.gaps[np.isfinite(line.gaps)], [widest]]))
        share = [line.share_within(gap) for gap in at.tolist()]
        axes.step(at, share, where="post", **{**look, "marker": None}, linewidth=1.5)

    def dress(axes: Any) -> None:
        axes.set_xscale("symlog", linthresh=LEAST_GAP, linscale=0.5)
        axes.set_xlim(0, widest)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda gap, _: f"{100 * gap:g} %" if gap else "0")
        )
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

    words = ("at most so far above the best known peak", "share of the instances")
    texts = {label: f"{label} ({len(line.gaps)})" for label, line in lines.items()}
    return line_figure(texts, looks, draw, dress, words)
