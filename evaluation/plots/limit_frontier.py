"""Extra time by the memory limit, a line for each planner, above the lower bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evaluation.plots.drawing import SUFFIXES, layered_figure, save_figure
from evaluation.plots.plan_rectangles import OTHERS_COLOUR
from planners.recompute import FrontierPoint, RepeatableStep
from planners.recompute.limit_plots import FrontierPlot
from planners.text.byte_units import binary_unit

# A panel shows at most so many planners; more lines cannot be told apart.
MOST_BEST = 4


def limit_frontier_figure(
    step: RepeatableStep, points: Sequence[FrontierPoint], *, every: bool = False
) -> Figure:
    """Return the picture of every planner, or of the best: most limits met, then least time.

    Below the grey area's upper edge no schedule exists.
    """
    peak = int(step.live_bytes.max(initial=0))
    scale, unit = binary_unit(peak)
    found = {
        result.planner: {
            point.limit / scale: 100 * step.share(other.extra_seconds)
            for point in points
            for other in point.results
            if other.planner == result.planner and np.isfinite(step.share(other.extra_seconds))
        }
        for result in points[0].results
    }
    found = {name: places for name, places in found.items() if places}
    if not every:
        found = dict(sorted(found.items(), key=lambda line: _rank(line[1]))[:MOST_BEST])

    def dress(axes: Any) -> None:
        least = [100 * step.share(point.least_seconds) for point in points]
        axes.fill_between(
            [point.limit / scale for point in points],
            [share if np.isfinite(share) else np.nan for share in least],
            color=OTHERS_COLOUR,
            label="ruled out by the bound",
        )
        axes.set_ylim(bottom=0)

    return layered_figure(found, dress, (f"limit {unit}", "extra time %"))


def _rank(places: Mapping[float, float]) -> tuple[int, float]:
    return -len(places), sum(places.values())


def _draw(step: RepeatableStep, points: Sequence[FrontierPoint], every: bool, path: Path) -> None:
    save_figure(limit_frontier_figure(step, points, every=every), path)


LIMIT_FRONTIER = FrontierPlot(_draw, SUFFIXES)
