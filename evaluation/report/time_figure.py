"""Time against the number of tensors, both on logarithmic axes: a power is a straight line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from evaluation.report.cases import Case, by_planner
from evaluation.report.drawing import Look, line_figure, logarithmic
from planners.text.byte_units import three_digits

# Below this a clock of processors tells nothing.
LEAST_SECONDS = 1e-5


def timed_points(cases: Sequence[Case]) -> dict[str, list[tuple[int, float]]]:
    """Return tensors and seconds of each planner's timed cases, the slowest planner first."""
    points = {
        label: sorted(
            (case.facts.tensors, max(case.seconds, LEAST_SECONDS))
            for case in its
            if case.seconds is not None and case.facts.tensors > 0
        )
        for label, its in by_planner(cases).items()
    }
    shown = {label: its for label, its in points.items() if its}
    return dict(sorted(shown.items(), key=lambda entry: _typical(entry[1]), reverse=True))


def _typical(points: Sequence[tuple[int, float]]) -> float:
    return float(np.median([np.log(seconds) for _, seconds in points]))


def time_figure(
    points: Mapping[str, Sequence[tuple[int, float]]], looks: Mapping[str, Look]
) -> Figure:
    """Return the picture of the points of :func:`timed_points`."""

    def draw(axes: Any, label: str, look: Look) -> None:
        tensors, seconds = zip(*points[label], strict=True)
        axes.plot(tensors, seconds, **{**look, "linestyle": "none"}, markersize=4, alpha=0.8)

    def dress(axes: Any) -> None:
        logarithmic(axes, "x", lambda count: f"{count:,.0f}")
        logarithmic(axes, "y", seconds_text)

    texts = {label: label for label in points}
    return line_figure(texts, looks, draw, dress, ("tensors", "processor time"))


def seconds_text(value: float) -> str:
    """Return a time with three digits in the unit in which it is best read."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= 0.9995 * scale:
            return f"{three_digits(value / scale)} {unit}"
    return f"{three_digits(value / 1e-6)} µs"
