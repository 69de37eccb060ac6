"""The largest batch that fits by the length of its sequences, a line for each allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evaluation.plots.drawing import SUFFIXES, layered_figure, logarithmic, save_figure
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPicture
from gpu_runtime.fitting.frontier import Frontier


def frontier_figure(frontier: Frontier) -> Figure:
    """Return the picture of the largest value that fits for each value of the other parameter."""
    points = {
        label: {value: largest for value, found in frontier.found.items()
                if (largest := found.largest(label))}
        for label in frontier.labels
    }  # fmt: skip

    def dress(axes: Any) -> None:
        logarithmic(axes, "y", lambda value: f"{value:,.0f}")
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(frontier.found), [f"{value:,}" for value in frontier.found])

    return layered_figure(points, dress, (frontier.doubled, f"largest {frontier.searched}"))


def _draw(answer: FitAnswer, path: Path) -> None:
    if answer.frontier is not None and answer.frontier.fits:
        save_figure(frontier_figure(answer.frontier), path)


FRONTIER = FitPicture(_draw, SUFFIXES)
