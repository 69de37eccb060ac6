"""Bytes in use over the events of a run, and a line of reserved bytes for each online allocator."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from evaluation.plots.drawing import SUFFIXES, save_figure
from evaluation.plots.layout import HEADROOM
from planners.compare.plots import OnlinePlot
from planners.errors import GaplessError
from planners.model.columns import IntColumn
from planners.online.online_run import OnlineRun
from planners.text.byte_units import binary_unit, human_bytes

# Of Okabe & Ito's colours. A line between it and the area below is memory that lies idle.
IN_USE_COLOUR = "#56B4E9"
LINE_COLOURS = ("#D55E00", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#000000")
WIDTH_INCHES, HEIGHT_INCHES = 10.0, 4.0
# The distance of two labels, as a share of the height.
LINE_PITCH = 0.06
# Points of a series in a plot; each shows the maximum of its events. A guess.
MOST_POINTS = 2000


def draw_memory_over_time(run: OnlineRun, path: Path) -> None:
    """Draw the bytes in use and the reserved bytes of each allocator, event by event."""
    save_figure(memory_figure(run), path)


def memory_figure(run: OnlineRun) -> Figure:
    """Return the picture, see :func:`draw_memory_over_time`."""
    drawn = {
        row.label: row.result
        for row in run.rows
        if row.result is not None and len(row.result.reserved)
    }
    if not drawn:
        raise GaplessError(f"plot of {run.requests.name}: no allocator has served anything")
    figure = Figure(figsize=(WIDTH_INCHES, HEIGHT_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    most = max(result.reserved_peak for result in drawn.values())
    scale, unit = binary_unit(most)
    axes.set_ylim(0, max(most, 1) * HEADROOM / scale)
    in_use = min(drawn.values(), key=lambda result: result.allocated_peak)
    row, bytes_ = thinned(in_use.allocated)
    axes.fill_between(row, bytes_ / scale, step="post", color=IN_USE_COLOUR, linewidth=0)
    names = {f"reserved by {label}": result.reserved_peak for label, result in drawn.items()}
    names["in use"] = in_use.allocated_peak
    colours = dict(zip(names, cycle(LINE_COLOURS))) | {"in use": IN_USE_COLOUR}
    top = axes.get_ylim()[1]
    at = top
    for name, peak in sorted(names.items(), key=lambda named: -named[1]):
        at = min(peak / scale, at - top * LINE_PITCH)
        text = f"{name}: {human_bytes(peak)}"
        axes.annotate(text, (1.01, at), xycoords=("axes fraction", "data"), va="center",
                      fontsize=10, color=colours[name])  # fmt: skip
    for name, result in zip(names, drawn.values(), strict=False):
        row, bytes_ = thinned(result.reserved)
        axes.step(row, bytes_ / scale, where="post", color=colours[name])
    axes.set_xlim(0, len(in_use.allocated))
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    axes.set_xlabel(f"requests and frees of {run.requests.name}")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda row, _: f"{row:,.0f}"))
    return figure


def thinned(series: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Return the first rows of equal stretches of a series, and the maximum of each."""
    each = -(-len(series) // MOST_POINTS)
    first = np.arange(0, len(series), each)
    return first, np.maximum.reduceat(series, first)


MEMORY_OVER_TIME = OnlinePlot(draw_memory_over_time, SUFFIXES)
