"""The style of the static figures of a report: axes, lines and how they are told apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from evaluation.plots.tensor_classes import BOUND_COLOUR, CLASS_COLOURS, INK

WIDTH_INCHES = 8.0
DOTS_PER_INCH = 200
# Yellow is too light for a line.
LINE_COLOURS = (INK, *CLASS_COLOURS[:5], BOUND_COLOUR)
LINE_STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1, 1, 1)))
MARKERS = "os^Dvx+"


def new_figure(height_inches: float, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Any]]:
    """Return an empty figure, and its axes row by row."""
    figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(which="both", labelsize=9)
        each.grid(visible=True, color="#e6e6e6", linewidth=0.7)
        each.set_axisbelow(True)
    return figure, axes


def line_looks(labels: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return colour, dashes and marker of each line: all pairs of lines differ."""
    return {
        label: {
            "color": LINE_COLOURS[index % len(LINE_COLOURS)],
            "linestyle": LINE_STYLES[index // len(LINE_COLOURS) % len(LINE_STYLES)],
            "marker": MARKERS[index // len(LINE_COLOURS) % len(MARKERS)],
        }
        for index, label in enumerate(labels)
    }


def add_legend(figure: Figure, panels: Sequence[Any]) -> None:
    """Name the lines of panels beside them, each once, in the order in which they were drawn."""
    handle_of: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handle_of.setdefault(label, handle)
    figure.legend(
        list(handle_of.values()), list(handle_of), loc="outside right upper", fontsize=8.5,
        frameon=False, handlelength=2.6,
    )  # fmt: skip


def logarithmic(axes: Any, way: Literal["x", "y"], text_of: Callable[[float], str]) -> None:
    """Make an axis logarithmic, with labels also between powers of ten where there are few."""
    label = FuncFormatter(lambda value, _: text_of(value))
    axes.set(**{f"{way}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[way]
    low, high = axis.get_data_interval()
    axis.set_major_formatter(label)
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter(label if high < 50 * low else NullFormatter())


def png_of(figure: Figure) -> bytes:
    """Return a figure as a picture, the same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    return file.getvalue()
