"""The page of a prediction: its answer, its tables, and a memory map of the step of the peak."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bokeh.models.ui import UIElement

from evaluation.plots.plan_rectangles import CLASS_COLOURS, OTHERS_COLOUR, TensorClasses
from evaluation.report.html_page import render_page
from evaluation.report.memory_map import MappedPlan, memory_map
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPage
from gpu_runtime.fitting.fit_check import LIVE, FitCheck
from gpu_runtime.fitting.fit_report import fit_notes, fit_sections, peak_line
from gpu_runtime.fitting.live_peak import Kind, kind_of
from instances.traces.allocation_trace import NO_MODULE, iteration_window
from instances.traces.trace_requests import requests_of_trace
from planners.files.output_file import write_output
from planners.model.bounds import lifetime_bound
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult
from planners.model.plan import Plan, Result, Status
from planners.model.problem import Problem
from planners.online.online_run import run_online

MAP = "map"


def write_fit_page(answer: FitAnswer, path: Path) -> None:
    """Write the page of an answer."""
    write_output(path, fit_page(answer).encode())


def fit_page(answer: FitAnswer) -> str:
    """Return the page of an answer."""
    worst = answer.worst
    title, _, facts = peak_line(worst).partition(": ")
    notes = fit_notes(worst, answer.memory, answer.found)
    return render_page(
        "fit.html",
        {MAP: _map_of_peak(worst.check)},
        title=title,
        about=facts.split("; "),
        answer="" if answer.memory is None else notes.pop(),
        sections=list(fit_sections(answer)),
        notes=notes,
    )


def _map_of_peak(check: FitCheck) -> UIElement:
    """Return the map of all blocks of the step of the peak, where each allocator puts them."""
    trace, peak = check.trace, check.peak
    window = iteration_window(trace, peak.step - 1) if peak.step else (0, trace.event_count)
    begin, end = window
    asked = np.flatnonzero(trace.size > 0)
    place = np.flatnonzero((trace.alloc[asked] < end) & (trace.freed[asked] > begin))
    chosen = asked[place]
    kinds = [kind_of(trace, request, peak.event) for request in chosen.tolist()]
    modules = [
        "" if module == NO_MODULE else trace.module_names[module]
        for module in trace.alloc_module[chosen].tolist()
    ]
    start = np.maximum(trace.alloc[chosen], begin) - begin
    problem = Problem(
        trace.size[chosen],
        start,
        np.maximum(np.minimum(trace.freed[chosen], end) - begin, start + 1),
        tensor_name=[module or kind for module, kind in zip(modules, kinds, strict=True)],
        name=trace.name,
    )
    labels = [row.label for row in check.rows if row.label != LIVE]
    requests = requests_of_trace(trace)
    plans = []
    for row in run_online(requests, ",".join(labels)).rows:
        if row.result is not None and len(row.result.addresses):
            plan = Plan.of(problem, _offsets(row.result)[place])
            plans.append(MappedPlan(row.label, Result(Status.FEASIBLE, plan)))
    classes = _classes([str(kind) for kind in kinds])
    bounds = [lifetime_bound(problem)]
    moment = peak.event - begin
    return memory_map(problem, plans, bounds, MAP, first=classes, moment=moment)


def _offsets(result: OnlineResult) -> IntColumn:
    """Return the addresses of blocks with the gaps between segments closed."""
    segments = result.segments[np.argsort(result.segments[:, 1], kind="stable")]
    begin, end = segments[:, 1], np.maximum.accumulate(segments[:, 1] + segments[:, 2])
    gap = np.maximum(begin - np.append(begin[:1], end[:-1]), 0)
    behind = np.searchsorted(begin, result.addresses, side="right") - 1
    offsets: IntColumn = result.addresses - begin[0] - np.cumsum(gap)[behind]
    return offsets


def _classes(kinds: list[str]) -> TensorClasses:
    labels = list(Kind)
    colours = [*CLASS_COLOURS, OTHERS_COLOUR]
    of_tensor = np.array([labels.index(Kind(kind)) for kind in kinds], dtype=np.int64)
    return TensorClasses("kind", of_tensor, colours[: len(labels)], labels)


FIT_PAGE = FitPage(write_fit_page, (".html", ".htm"))
