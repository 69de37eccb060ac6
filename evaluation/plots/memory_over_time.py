"""Reserved against allocated bytes over the events of a run, a panel for each online allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from evaluation.plots.drawing import SUFFIXES, save_figure
from evaluation.plots.layout import HEADROOM
from evaluation.plots.plan_rectangles import INK
from planners.compare.plots import OnlinePlot
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult
from planners.online.online_run import OnlineRun
from planners.text.byte_units import binary_unit, human_bytes

# Two of Okabe & Ito's colours. Orange shows bytes that are reserved and not allocated.
RESERVED_COLOUR = "#E69F00"
ALLOCATED_COLOUR = "#56B4E9"
WIDTH_INCHES = 10.0
PANEL_INCHES = 1.9
MARGIN_INCHES = 0.9
# Points of a series in a plot; each shows the maximum of its events. A guess.
MOST_POINTS = 2000


def draw_memory_over_time(run: OnlineRun, path: Path) -> None:
    """Draw the reserved and the allocated bytes of each allocator that has a series."""
    save_figure(memory_figure(run), path)


def memory_figure(run: OnlineRun) -> Figure:
    """Return the picture, see :func:`draw_memory_over_time`."""
    drawn = [
        (row.label, row.result)
        for row in run.rows
        if row.result is not None and len(row.result.reserved)
    ]
    if not drawn:
        raise GaplessError(f"plot of {run.requests.name}: no allocator has served anything")
    height = MARGIN_INCHES + PANEL_INCHES * len(drawn)
    figure = Figure(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(drawn), sharex=True, sharey=True, squeeze=False)[:, 0]
    most = max(result.reserved_peak for _, result in drawn)
    scale, unit = binary_unit(most)
    panels[0].set_ylim(0, max(most, 1) * HEADROOM / scale)
    for axes, (label, result) in zip(panels, drawn, strict=True):
        _draw_panel(axes, result, scale)
        axes.set_title(f"{label}  ·  {_peaks(result)}", fontsize=10, color=INK, loc="left")
        axes.set_ylabel(unit)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    panels[-1].set_xlabel(f"event of {run.requests.name}")
    panels[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{row:,.0f}"))
    return figure


def _draw_panel(axes: Any, result: OnlineResult, scale: int) -> None:
    for series, colour, label in (
        (result.reserved, RESERVED_COLOUR, "reserved"),
        (result.allocated, ALLOCATED_COLOUR, "allocated"),
    ):
        row, most = thinned(series)
        axes.fill_between(row, most / scale, step="post", color=colour, linewidth=0, label=label)
    axes.set_xlim(0, len(result.reserved))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def thinned(series: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Return the first rows of equal stretches of a series, and the maximum of each."""
    each = -(-len(series) // MOST_POINTS)
    first = np.arange(0, len(series), each)
    return first, np.maximum.reduceat(series, first)


def _peaks(result: OnlineResult) -> str:
    return (
        f"reserved {human_bytes(result.reserved_peak)}, allocated "
        f"{human_bytes(result.allocated_peak)}, efficiency {100 * result.efficiency:.1f} %"
    )


MEMORY_OVER_TIME = OnlinePlot(draw_memory_over_time, SUFFIXES)
