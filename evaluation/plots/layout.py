"""The layout of a plan: time by offset, one rectangle for each tensor.

Note: steps of unlike width
---------------------------
Rationale. Most tensors of a training step begin and end within a tenth of its steps, while the
optimizer goes on for thousands of small ones. With steps of one width a picture is nearly empty.
Approach. A step at which many bytes begin or end is wide. The ticks are at equal distances and say
at which step they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter

from evaluation.plots.drawing import DOTS_PER_INCH, SUFFIXES, save_figure
from evaluation.plots.plan_rectangles import (
    BOUND_COLOUR,
    INK,
    PlanRectangles,
    TensorClasses,
    best_bound,
    default_classes,
    rectangles_of,
    require_time,
)
from planners.compare.plots import Plot
from planners.model.bounds import Bound
from planners.model.plan import Result
from planners.model.problem import Problem
from planners.text.byte_units import binary_unit, human_bytes, three_digits

FIGURE_INCHES = (10.0, 5.6)
# A rectangle narrower or lower than this would be all edge.
SMALLEST_EDGED_DOTS = 5.0
HEADROOM = 1.07
MOST_TICKS = 9


def draw_layout(problem: Problem, result: Result, bounds: Sequence[Bound], path: Path) -> None:
    """Draw a plan: steps of the global order by offset, with its peak and the best bound.

    The result's own bounds count as well. A problem of explicit pairs alone is refused.
    """
    require_time(problem)
    save_figure(layout_figure(problem, result, bounds), path)


def layout_figure(problem: Problem, result: Result, bounds: Sequence[Bound]) -> Figure:
    """Return the picture of a plan, see :func:`draw_layout`."""
    assert result.plan is not None
    figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    name, bound = best_bound([result], bounds)
    top = max(result.plan.peak, bound, 1)
    scale, unit = binary_unit(top)
    rectangles = rectangles_of(problem, result.plan)
    empty = not len(rectangles.tensor)
    if not empty:
        _set_widths(axes, rectangles)
    axes.set_ylim(0, top * HEADROOM / scale)
    classes = default_classes(problem)
    _add_rectangles(axes, rectangles, classes, scale)
    levels = [
        (result.plan.peak, "peak", INK, "bottom"),
        (bound, f"{name} bound", BOUND_COLOUR, "top"),
    ]
    if problem.memories:
        levels = [(memory.begin, memory.name, INK, "bottom") for memory in problem.memories]
    for bytes_, label, colour, side in levels:
        _add_level(axes, bytes_ / scale, label, colour, side)
    _add_legend(figure, classes)
    axes.set_title(_title(problem, result, bound), fontsize=11, color=INK, loc="left")
    axes.set_xlabel("step of the global order, as wide as the bytes that begin or end there")
    axes.set_ylabel(f"offset ({unit})")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
    return figure


def _set_widths(axes: Any, rectangles: PlanRectangles) -> None:
    size = rectangles.high - rectangles.low
    steps, position = np.unique(
        np.concatenate([rectangles.start, rectangles.end]), return_inverse=True
    )
    width = np.bincount(position, np.concatenate([size, size]))
    left = np.cumsum(width) - width

    # From a step to its place, and back.
    axes.set_xscale(
        "function",
        functions=(partial(np.interp, xp=steps, fp=left), partial(np.interp, xp=left, fp=steps)),
    )
    axes.set_xlim(steps[0], steps[-1])
    ticks = np.interp(np.linspace(0, left[-1], MOST_TICKS), left, steps)
    axes.xaxis.set_major_locator(FixedLocator(np.unique(np.rint(ticks)).tolist()))


def _add_rectangles(
    axes: Any, rectangles: PlanRectangles, classes: TensorClasses, scale: int
) -> None:
    low, high = axes.get_ylim()
    place = axes.xaxis.get_transform().transform
    left, right = place(np.array(axes.get_xlim()))
    width, height = (inches * DOTS_PER_INCH for inches in FIGURE_INCHES)
    lasting = place(rectangles.end) - place(rectangles.start)
    wide = lasting * width / (right - left) > SMALLEST_EDGED_DOTS
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


def _add_level(axes: Any, level: float, label: str, colour: str, side: str) -> None:
    line = (0, (5, 3)) if colour == BOUND_COLOUR else "-"
    axes.axhline(level, color=colour, linewidth=1.1, linestyle=line)
    # Labels stand beside the axes, off the rectangles. The peak's stands above its line and the
    # bound's below it, since the two levels may be equal.
    axes.annotate(
        label, (1, level), (4, 0), xycoords=axes.get_yaxis_transform(),
        textcoords="offset points", ha="left", va=side, fontsize=9, color=colour,
    )  # fmt: skip


def _add_legend(figure: Figure, classes: TensorClasses) -> None:
    handles = [
        Patch(color=colour, label=label)
        for colour, label in zip(classes.colours, classes.labels, strict=True)
    ]
    # The legend stands below the axes: labels of levels may be at any height beside them.
    figure.legend(
        handles=handles, title=classes.title, loc="outside lower center", ncols=len(handles),
        frameon=False, fontsize=9, title_fontsize=9, columnspacing=1.4, handlelength=1.4,
    )  # fmt: skip


def _title(problem: Problem, result: Result, bound: int) -> str:
    assert result.plan is not None
    peak = result.plan.peak
    parts = [problem.name, result.planner, f"peak {human_bytes(peak)}"]
    if problem.memories:
        parts[2:] = [f"cost {result.cost:,}"]
    elif bound and peak != bound:
        parts.append(f"{three_digits(100 * (peak / bound - 1))} % above the bound")
    elif peak == bound:
        parts.append("optimal")
    return "  ·  ".join(parts)


LAYOUT = Plot(draw_layout, SUFFIXES, require_time)
