"""How far predictions of memory are from what was measured, as shares of the trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from evaluation.plots.drawing import layered_figure, logarithmic
from evaluation.study.record import FitRecord, Record

# Estimators that name no allocator are compared with what PyTorch's default one reserves.
DEFAULT = "pytorch-caching"
# A logarithmic axis has no 0.
LEAST_PERCENT = 0.01


def error_lines(records: Sequence[Record]) -> dict[str, dict[float, float]]:
    """Return by predictor the percent of its trainings that are within each error in percent."""
    found = [its for its in records if isinstance(its, FitRecord) and its.peak]
    taken = {(its.instance, its.planner): its.peak or 0 for its in found if its.measured}
    errors: dict[str, list[float]] = {}
    for its in found:
        real = taken.get((its.instance, its.planner)) or taken.get((its.instance, DEFAULT))
        if not its.measured and real:
            errors.setdefault(its.planner, []).append(100 * abs((its.peak or 0) / real - 1))
    return {
        planner: {
            max(error, LEAST_PERCENT): 100 * count / len(of_planner)
            for count, error in enumerate(sorted(of_planner), 1)
        }
        for planner, of_planner in errors.items()
    }


def error_figure(lines: dict[str, dict[float, float]]) -> Figure:
    """Return the picture of such shares."""

    def dress(axes: Any) -> None:
        logarithmic(axes, "x", lambda value: f"{value:g}")
        axes.set_ylim(0, 102)

    return layered_figure(lines, dress, ("error of reserved bytes, %", "trainings within it, %"))
