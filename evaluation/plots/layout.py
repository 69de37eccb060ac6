"""The layout of a plan: time by offset, one rectangle for each tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from planners.compare.plots import Plot
from planners.errors import GaplessError
from planners.files.output_file import replacing
from planners.model.bounds import Bound
from planners.model.plan import Result
from planners.model.problem import Problem, Safety
from planners.text.byte_units import binary_unit, human_bytes, three_digits

# Okabe & Ito, "Color Universal Design" (2008): told apart by all common kinds of colour vision.
# Their vermilion is left to the bound.
STREAM_COLOURS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#F0E442")
OTHER_STREAMS_COLOUR = "#999999"
BOUND_COLOUR = "#D55E00"
SIZE_CLASSES = 5
FIGURE_INCHES = (10.0, 5.6)
DOTS_PER_INCH = 200
# A rectangle narrower or lower than this would be all edge.
SMALLEST_EDGED_DOTS = 5.0
HEADROOM = 1.07
INK = "#222222"


@dataclass(frozen=True)
class _Rectangles:
    """One row a rectangle: its tensor, its steps and its bytes."""

    tensor: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def corners(self, chosen: NDArray[np.bool_], scale: int) -> NDArray[np.float64]:
        """Return corners of the chosen rectangles, shape (rectangles, 4, 2)."""
        left, right = self.start[chosen], self.end[chosen]
        low, high = self.low[chosen] / scale, self.high[chosen] / scale
        across = np.stack([left, right, right, left], axis=1)
        up = np.stack([low, low, high, high], axis=1)
        return np.stack([across, up], axis=2)


@dataclass(frozen=True)
class _Classes:
    """Which class each tensor is in, and how the classes are shown."""

    of_tensor: NDArray[np.int64]
    colours: list[Any]
    labels: list[str]
    title: str


def draw_layout(problem: Problem, result: Result, bounds: Sequence[Bound], path: Path) -> None:
    """Draw a plan: steps of the global order by offset, with its peak and the best bound.

    Parameters
    ----------
    problem
        With lifetimes, given or from its graph.
    result
        With a plan.
    bounds
        Lower bounds of the problem; the result's own counts as well.
    path
        Target; its suffix says the format.

    Raises
    ------
    GaplessError
        The problem has explicit pairs only, or the picture cannot be written.
    """
    _require_time(problem)
    figure = layout_figure(problem, result, bounds)
    with replacing(path) as file:
        figure.savefig(file, dpi=DOTS_PER_INCH, format=format_of(path))


def _require_time(problem: Problem) -> None:
    if problem.safety is Safety.PAIRS:
        raise GaplessError(
            f"plot of {problem.name}: lifetimes are needed, found explicit unsafe pairs, which "
            "have no time"
        )


def format_of(path: Path) -> str | None:
    """Return the format that a name says; None, for matplotlib's own, where it says none."""
    suffix = path.suffix.lower().removeprefix(".")
    return suffix if f".{suffix}" in LAYOUT.suffixes else None


def layout_figure(problem: Problem, result: Result, bounds: Sequence[Bound]) -> Figure:
    """Return the picture of a plan, see :func:`draw_layout`."""
    assert result.plan is not None
    figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    name, bound = _best_bound(result, bounds)
    top = max(result.plan.peak, bound, 1)
    scale, unit = binary_unit(top)
    rectangles = _rectangles(problem, result)
    empty = not len(rectangles.tensor)
    axes.set_xlim(*((0, 1) if empty else (rectangles.start.min(), rectangles.end.max())))
    axes.set_ylim(0, top * HEADROOM / scale)
    classes = _classes(problem)
    _add_rectangles(axes, rectangles, classes, scale)
    _add_levels(axes, result.plan.peak / scale, bound / scale, f"{name} bound")
    _add_legend(figure, classes)
    axes.set_title(_title(problem, result, bound), fontsize=11, color=INK, loc="left")
    axes.set_xlabel("step of the global order")
    axes.set_ylabel(f"offset ({unit})")
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure


def _best_bound(result: Result, bounds: Sequence[Bound]) -> tuple[str, int]:
    known = [(bound.bytes, bound.name) for bound in bounds]
    if result.certificate:
        known.append((result.lower_bound, result.certificate))
    # Of equal bounds the first is named.
    size, name = max(known, key=lambda entry: entry[0], default=(0, "no"))
    return name, size


def _rectangles(problem: Problem, result: Result) -> _Rectangles:
    assert result.plan is not None
    tensor, start, end = problem.segments().T
    shown = problem.size[tensor] > 0
    tensor, start, end = tensor[shown], start[shown], end[shown]
    low = result.plan.offsets[tensor]
    return _Rectangles(tensor, start, end, low, low + problem.size[tensor])


def _classes(problem: Problem) -> _Classes:
    graph = problem.graph
    if graph is None or problem.stream_count <= 1:
        return _classes_of_size(problem)
    streams, of_tensor = np.unique(graph.stream[graph.producer], return_inverse=True)
    # Colours are few, so the streams that fill most of the picture have one each.
    by_area = np.argsort(-np.bincount(of_tensor, weights=_area(problem)), kind="stable")
    shown = np.sort(by_area[: len(STREAM_COLOURS)])
    class_of_stream = np.full(len(streams), len(shown), dtype=np.int64)
    class_of_stream[shown] = np.arange(len(shown))
    colours: list[Any] = list(STREAM_COLOURS[: len(shown)])
    labels = [str(stream) for stream in streams[shown].tolist()]
    if len(streams) > len(shown):
        colours.append(OTHER_STREAMS_COLOUR)
        labels.append(f"{len(streams) - len(shown)} others")
    return _Classes(class_of_stream[of_tensor], colours, labels, "stream of the producer")


def _classes_of_size(problem: Problem) -> _Classes:
    """Cut the range of sizes where equal shares of the occupied area lie between the cuts."""
    size = problem.size
    area = _area(problem)
    order = np.argsort(size, kind="stable")
    share = np.cumsum(area[order])
    cuts: list[int] = []
    if len(share) and share[-1] > 0:
        at = np.searchsorted(share, share[-1] * np.arange(1, SIZE_CLASSES) / SIZE_CLASSES)
        cuts = sorted(set(size[order][at].tolist()) - {int(size.max())})
    of_tensor = np.searchsorted(np.array(cuts, dtype=np.int64), size, side="left")
    shades = matplotlib.colormaps["YlGnBu_r"](np.linspace(0.05, 0.75, max(len(cuts) + 1, 2)))
    labels = [f"up to {human_bytes(cut)}" for cut in [*cuts, int(size.max(initial=0))]]
    return _Classes(of_tensor.astype(np.int64), list(shades)[: len(labels)], labels, "size")


def _area(problem: Problem) -> NDArray[np.float64]:
    return problem.size.astype(np.float64) * (problem.end - problem.start)


def _add_rectangles(axes: Any, rectangles: _Rectangles, classes: _Classes, scale: int) -> None:
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    width, height = (inches * DOTS_PER_INCH for inches in FIGURE_INCHES)
    wide = (rectangles.end - rectangles.start) * width / (right - left) > SMALLEST_EDGED_DOTS
    tall = (rectangles.high - rectangles.low) * height / scale / (high - low) > SMALLEST_EDGED_DOTS
    colours = matplotlib.colors.to_rgba_array(classes.colours)[classes.of_tensor[rectangles.tensor]]
    for chosen, edge in ((~(wide & tall), "none"), (wide & tall, "white")):
        axes.add_collection(
            PolyCollection(
                list(rectangles.corners(chosen, scale)),
                facecolors=colours[chosen],
                edgecolors=edge,
                linewidths=0.25 if edge != "none" else 0.0,
            ),
            autolim=False,
        )


def _add_levels(axes: Any, peak: float, bound: float, bound_name: str) -> None:
    axes.axhline(peak, color=INK, linewidth=1.1)
    axes.axhline(bound, color=BOUND_COLOUR, linewidth=1.1, linestyle=(0, (5, 3)))
    # Beside the axes, where nothing lies below them; apart, for the two levels may be one.
    for level, label, colour, side in (
        (peak, "peak", INK, "bottom"),
        (bound, bound_name, BOUND_COLOUR, "top"),
    ):
        axes.annotate(
            label, (1, level), (4, 0), xycoords=axes.get_yaxis_transform(),
            textcoords="offset points", ha="left", va=side, fontsize=9, color=colour,
        )  # fmt: skip


def _add_legend(figure: Figure, classes: _Classes) -> None:
    handles = [
        Patch(color=colour, label=label)
        for colour, label in zip(classes.colours, classes.labels, strict=True)
    ]
    # Below the axes: the labels of the levels may be anywhere beside them.
    figure.legend(
        handles=handles, title=classes.title, loc="outside lower center", ncols=len(handles),
        frameon=False, fontsize=9, title_fontsize=9, columnspacing=1.4, handlelength=1.4,
    )  # fmt: skip


def _title(problem: Problem, result: Result, bound: int) -> str:
    assert result.plan is not None
    peak = result.plan.peak
    parts = [problem.name, result.planner, f"peak {human_bytes(peak)}"]
    if bound and peak != bound:
        parts.append(f"{three_digits(100 * (peak / bound - 1))} % above the bound")
    elif peak == bound:
        parts.append("optimal")
    return "  ·  ".join(parts)


LAYOUT = Plot(
    draw_layout,
    tuple(f".{name}" for name in FigureCanvasAgg.get_supported_filetypes()),
    _require_time,
)
