"""The peak by the number of waits, above the lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evaluation.plots.drawing import SUFFIXES, layered_figure, save_figure
from evaluation.plots.plan_rectangles import OTHERS_COLOUR
from planners.compare.plots import WaitsPlot
from planners.text.byte_units import binary_unit
from planners.waits.waits_frontier import WaitsPoint


def waits_figure(points: Sequence[WaitsPoint]) -> Figure:
    """Return the picture; below the grey area's upper edge no plan exists."""
    scale, unit = binary_unit(max(point.peak for point in points))
    counts = [point.count for point in points]

    def dress(axes: Any) -> None:
        bounds = [point.bound / scale for point in points]
        axes.fill_between(counts, bounds, color=OTHERS_COLOUR, label="ruled out by the bound")
        axes.set_ylim(bottom=0.98 * min(bounds))

    peaks = {point.count: point.peak / scale for point in points}
    return layered_figure({"auto": peaks}, dress, ("waits", f"peak {unit}"))


def _draw(points: Sequence[WaitsPoint], path: Path) -> None:
    save_figure(waits_figure(points), path)


WAITS_FRONTIER = WaitsPlot(_draw, SUFFIXES)
