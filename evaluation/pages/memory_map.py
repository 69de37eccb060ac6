"""The memory map: the plans of a problem as rectangles that a reader can search with the pointer.

Note: one set of rectangles, many plans
---------------------------------------
Rationale. A page shows every plan of a comparison, and a problem may have 20,000 tensors with long
names. With a drawing for each plan the page would hold the names twenty times, and a browser as
many canvases.

Approach. One drawing. It holds the columns of the problem (steps, sizes, names, classes) once, and
the offsets of each plan. Choosing a plan moves the rectangles to its offsets, so that the reader
sees the same part of the drawing under another planner.

Limits. A rectangle is at most a tensor: with gaps in lifetimes a tensor has several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import (
    BasicTickFormatter,
    ColumnDataSource,
    CustomJS,
    HoverTool,
    LinearColorMapper,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Span
from bokeh.models.ui import UIElement
from bokeh.models.widgets import Div, Select
from bokeh.plotting import figure
from numpy.typing import NDArray

from evaluation.plots.plan_rectangles import (
    BOUND_COLOUR,
    INK,
    PlanRectangles,
    TensorClasses,
    all_classes,
    best_bound,
    rectangles_of,
)
from planners.model.bounds import Bound
from planners.model.columns import IntColumn
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.text.byte_units import binary_unit, exact_bytes, human_bytes, three_digits
from planners.text.plain_text import one_line

HEIGHT = 520
HEADROOM = 1.07
SCRIPTS = Path(__file__).parent / "scripts"
# A longer name of a tensor is cut.
MOST_NAME_CHARACTERS = 120
TEXT_STYLE: dict[str, str | None] = {
    "font-family": "system-ui, sans-serif", "font-size": "14px", "overflow-wrap": "anywhere",
}  # fmt: skip
TOOLS = "box_zoom,wheel_zoom,pan,reset,save,tap"
# Largest width in pixels of the box beside the pointer. The box stays within a drawing that is
# twice as wide; in a narrower drawing only the line below it shows the details.
POINTER_WIDTH = 320
LEAST_WIDTH = 2 * POINTER_WIDTH


@dataclass(frozen=True)
class MappedPlan:
    """A plan under the label by which a reader chooses it."""

    label: str
    result: Result


def memory_map(
    problem: Problem,
    plans: Sequence[MappedPlan],
    bounds: Sequence[Bound],
    name: str,
    *,
    first: TensorClasses | None = None,
    moment: int | None = None,
) -> UIElement:
    """Return the map of the plans of a problem with lifetimes, for Bokeh; the first plan is shown.

    The bounds of the results count as well. The name is unique on the page. Tensors are coloured by
    the classes ``first``, by default by those of the problem. A line marks the moment, a step.
    """
    placed = [(mapped, _plan_of(mapped)) for mapped in plans]
    bound_name, bound = best_bound([mapped.result for mapped in plans], bounds)
    tops = [max(plan.peak, bound, 1) for _, plan in placed]
    scale, unit = binary_unit(tops[0])
    rectangles = rectangles_of(problem, placed[0][1])
    kinds = [*([] if first is None else [first]), *all_classes(problem)]
    shown = ColumnDataSource(_columns(problem, rectangles, kinds, scale))
    drawing = _empty_drawing(rectangles, tops, scale, unit)
    drawing.name = f"{name}-figure"
    mappers = [_mapper(classes) for classes in kinds]
    details = _details(problem, kinds)
    quads = _add_rectangles(drawing, shown, details, mappers[0], f"{name}-rectangles")
    peak = _add_levels(drawing, placed[0][1].peak / scale, bound / scale, moment)
    captions = [_caption(mapped, plan.peak, bound, bound_name) for mapped, plan in placed]
    caption = _text(captions[0], name=f"{name}-caption")
    choose_plan = _plan_choice(
        name, placed, rectangles, scale, source=shown, peak_line=peak, range=drawing.y_range,
        caption=caption, captions=captions, tops=[top * HEADROOM / scale for top in tops],
    )  # fmt: skip
    legends = [_legend(classes) for classes in kinds]
    legend = _text(legends[0], name=f"{name}-legend")
    change = _script("colour_by", quads=quads, mappers=mappers, legend=legend, legends=legends)
    choose_colour = _select("colour", name, [classes.title for classes in kinds], change)
    return column(
        row(choose_plan, choose_colour, sizing_mode="stretch_width"),
        caption, drawing, _chosen_tensor(shown, kinds, name), legend,
        sizing_mode="stretch_width", name=name,
    )  # fmt: skip


def _add_rectangles(
    drawing: Any,
    shown: ColumnDataSource,
    details: Mapping[str, str],
    colours: LinearColorMapper,
    name: str,
) -> Any:
    """Add the rectangles, and the box beside the pointer that tells of one of them."""
    quads = drawing.quad(
        left="left", right="right", bottom="bottom", top="top", source=shown, name=name,
        fill_color={"field": "class_0", "transform": colours},
        line_color=INK, line_alpha=0.2, line_width=0.5,
        selection_line_alpha=1.0, selection_line_width=2.0, nonselection_fill_alpha=0.35,
    )  # fmt: skip
    hover = HoverTool(
        renderers=[quads], tooltips=_beside_the_pointer(details), point_policy="follow_mouse"
    )
    drawing.add_tools(hover)
    drawing.js_on_change(
        "inner_width",
        _script("point_where_wide", hover=hover, tooltips=hover.tooltips, least=LEAST_WIDTH),
    )
    return quads


def _add_levels(drawing: Any, peak: float, bound: float, moment: int | None) -> Span:
    """Add lines at the peak and the bound, and at a moment; return the line of the peak."""
    line = Span(location=peak, dimension="width", line_color=INK)
    drawing.add_layout(line)
    if moment is not None:
        drawing.add_layout(Span(location=moment, dimension="height", line_color=INK))
    drawing.add_layout(
        Span(
            location=bound, dimension="width", line_color=BOUND_COLOUR, line_dash=[6, 4],
            line_width=1.5,
        )
    )  # fmt: skip
    return line


def _plan_choice(
    name: str,
    placed: Sequence[tuple[MappedPlan, Plan]],
    rectangles: PlanRectangles,
    scale: int,
    **parts: object,
) -> Select:
    """Return the choice of the plan, by whose offsets the rectangles stand."""
    offsets = {
        str(index): plan.offsets[rectangles.tensor].astype(np.float64)
        for index, (_, plan) in enumerate(placed)
    }
    peaks = [plan.peak / scale for _, plan in placed]
    change = _script(
        "show_plan", offsets=ColumnDataSource(offsets), scale=scale, peaks=peaks, **parts
    )
    return _select("plan", name, [mapped.label for mapped, _ in placed], change)


def _chosen_tensor(shown: ColumnDataSource, kinds: Sequence[TensorClasses], name: str) -> Div:
    """Return the text that describes the tensor that the reader chose."""
    chosen = _text("", render_as_text=True, name=f"{name}-chosen")
    told = [(classes.title, f"value_{index}") for index, classes in enumerate(kinds)
            if _is_told(classes)]  # fmt: skip
    shown.selected.js_on_change(
        "indices", _script("describe_tensor", source=shown, target=chosen, told=told)
    )
    return chosen


def _mapper(classes: TensorClasses) -> LinearColorMapper:
    colours = list(classes.colours)
    return LinearColorMapper(palette=colours, low=-0.5, high=len(colours) - 0.5)


def _select(title: str, name: str, labels: Sequence[str], change: CustomJS) -> Select:
    options: list[str | tuple[Any, str]] = [(str(at), label) for at, label in enumerate(labels)]
    choice = Select(
        title=title, value="0", name=f"{name}-{title}", sizing_mode="stretch_width",
        options=options,
    )  # fmt: skip
    choice.js_on_change("value", change)
    return choice


def _plan_of(mapped: MappedPlan) -> Plan:
    plan = mapped.result.plan
    assert plan is not None, f"{mapped.label} has no plan that could be drawn"
    return plan


def _text(text: str, **options: Any) -> Div:
    return Div(text=text, sizing_mode="stretch_width", styles=TEXT_STYLE, **options)


def _script(name: str, **arguments: object) -> CustomJS:
    code = (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")
    return CustomJS(args=arguments, code=code)


def _empty_drawing(rectangles: PlanRectangles, tops: Sequence[int], scale: int, unit: str) -> Any:
    """Return axes of all steps by the first plan's height; panning ends at the highest plan."""
    begin, end = (
        (int(rectangles.start.min()), int(rectangles.end.max()))
        if len(rectangles.tensor)
        else (0, 1)
    )
    top, highest = (value * HEADROOM / scale for value in (tops[0], max(tops)))
    drawing = figure(
        height=HEIGHT, sizing_mode="stretch_width", output_backend="webgl", tools=TOOLS,
        active_drag="box_zoom", active_scroll="wheel_zoom", toolbar_location="above",
        x_range=Range1d(start=begin, end=end, bounds=(begin, end)),
        y_range=Range1d(start=0, end=top, reset_start=0, reset_end=top, bounds=(0, highest)),
        x_axis_label="step of the global order", y_axis_label=f"offset ({unit})",
        min_border_right=12,
    )  # fmt: skip
    drawing.toolbar.logo = None
    drawing.axis.axis_label_text_font_size = "13px"
    drawing.axis.major_label_text_font_size = "12px"
    drawing.xaxis.formatter = NumeralTickFormatter(format="0,0")
    drawing.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    drawing.grid.visible = False
    drawing.axis.axis_label_text_font_style = "normal"
    return drawing


def _columns(
    problem: Problem, rectangles: PlanRectangles, kinds: Sequence[TensorClasses], scale: int
) -> dict[str, Any]:
    """Return the columns that all plans share, with an entry for each rectangle."""
    tensor = rectangles.tensor
    size = problem.size[tensor]
    columns: dict[str, Any] = {
        "left": _steps(rectangles.start),
        "right": _steps(rectangles.end),
        "bottom": rectangles.low / scale,
        "top": rectangles.high / scale,
        "start": _steps(problem.start[tensor]),
        "end": _steps(problem.end[tensor]),
        "size": size.astype(np.float64),
        "offset": rectangles.low.astype(np.float64),
        "size_text": [human_bytes(each) for each in size.tolist()],
        "name": [_name_of(problem, each) for each in tensor.tolist()],
    }
    for index, classes in enumerate(kinds):
        columns[f"class_{index}"] = classes.of_tensor[tensor].astype(np.uint8)
        if _is_told(classes):
            columns[f"value_{index}"] = [
                one_line(_value(classes, each), MOST_NAME_CHARACTERS) for each in tensor.tolist()
            ]
    return columns


def _steps(steps: IntColumn) -> NDArray[Any]:
    """Return steps as floats: JavaScript has no integers of 64 bits."""
    return steps.astype(np.float64)


def _name_of(problem: Problem, tensor: int) -> str:
    if problem.tensor_name is None:
        return f"tensor {tensor}"
    return one_line(problem.tensor_name[tensor], MOST_NAME_CHARACTERS) or f"tensor {tensor}"


def _is_told(classes: TensorClasses) -> bool:
    """Return True if the pointer shows the class; a size is shown as a number instead."""
    return classes.title != "size"


def _value(classes: TensorClasses, tensor: int) -> str:
    if classes.value_of_tensor:
        return classes.value_of_tensor[tensor]
    return classes.labels[int(classes.of_tensor[tensor])]


def _details(problem: Problem, kinds: Sequence[TensorClasses]) -> Mapping[str, str]:
    """Return the details that the pointer shows of a tensor, as templates of Bokeh."""
    details = {
        "tensor": "@name",
        "size": "@size_text (@size{0,0} B)",
        "lifetime": "steps @start{0,0} to @end{0,0}",
        "offset": "@offset{0,0} B",
    }
    if len(problem.gaps):
        details["this part"] = "steps @left{0,0} to @right{0,0}"
    for index, classes in enumerate(kinds):
        if _is_told(classes):
            details[classes.title] = f"@value_{index}"
    return details


def _beside_the_pointer(details: Mapping[str, str]) -> str:
    """Return the template of the box beside the pointer, with long names on several lines."""
    lines = "".join(f"<div><b>{escape(what)}</b> {text}</div>" for what, text in details.items())
    style = f"max-width:{POINTER_WIDTH - 40}px;white-space:normal;overflow-wrap:anywhere"
    return f'<div style="{style}">{lines}</div>'


def _caption(mapped: MappedPlan, peak: int, bound: int, bound_name: str) -> str:
    parts = [f"<b>{escape(mapped.label)}</b>", f"peak {human_bytes(peak)} ({exact_bytes(peak)} B)"]
    if bound:
        parts.append(f"{escape(bound_name)} bound {human_bytes(bound)}")
        above = peak / bound - 1
        if peak > bound:
            parts.append(f"{three_digits(100 * above)} % above the bound")
    if mapped.result.status is Status.OPTIMAL:
        parts.append("proven optimal")
    return " · ".join(parts)


def _legend(classes: TensorClasses) -> str:
    box = "display:inline-block;width:1em;height:1em;vertical-align:-0.15em;margin-right:0.35em"
    entries = [
        f'<span style="white-space:nowrap;margin-right:1em">'
        f'<span style="{box};background:{colour}"></span>{escape(one_line(label, 60))}</span>'
        for colour, label in zip(classes.colours, classes.labels, strict=True)
    ]
    line = "display:inline-block;width:1.6em;vertical-align:0.25em;margin-right:0.35em"
    for name, style, colour in (("peak", "solid", INK), ("lower bound", "dashed", BOUND_COLOUR)):
        entries.append(
            f'<span style="white-space:nowrap;margin-right:1em">'
            f'<span style="{line};border-top:2px {style} {colour}"></span>{name}</span>'
        )
    return f"<b>{escape(classes.title)}</b>&ensp; {' '.join(entries)}"
