"""Reserved bytes by the number of GPUs, a line for each allocator, and the memory of a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from evaluation.plots.drawing import SUFFIXES, layered_figure, save_figure
from evaluation.plots.plan_rectangles import OTHERS_COLOUR
from gpu_runtime.fitting.fewest_ranks import FewestRanks
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPicture
from planners.text.byte_units import binary_unit


def fewest_ranks_figure(fewest: FewestRanks) -> Figure:
    """Return the picture; a dashed line is the memory of a GPU that PyTorch may use."""
    tried = fewest.tried
    labels = next(iter(tried.values())).labels
    scale, unit = binary_unit(max(
        row.reserved_peak for fit in tried.values() for row in fit.rows
    ))  # fmt: skip

    reserved = {
        label: {ranks: row.reserved_peak / scale for ranks, row in fewest.rows(label).items()}
        for label in labels
    }

    def dress(axes: Any) -> None:
        rooms = [(fit.room or 0) / scale for fit in tried.values()]
        axes.plot(list(tried), rooms, color=OTHERS_COLOUR, linestyle="--", label="of a GPU")
        axes.set_ylim(bottom=0)
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(tried), [f"{ranks:,}" for ranks in tried])

    words = ("GPUs", f"reserved {unit}")
    return layered_figure(reserved, dress, words)


def _draw(answer: FitAnswer, path: Path) -> None:
    if answer.fewest is not None:
        save_figure(fewest_ranks_figure(answer.fewest), path)


FEWEST_RANKS = FitPicture(_draw, SUFFIXES)
