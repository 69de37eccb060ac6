"""The page of a prediction: its answer, its tables, and a memory map of the step of the peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bokeh.models.ui import UIElement

from evaluation.pages.html_page import render_page
from evaluation.pages.memory_map import MappedPlan, memory_map
from evaluation.plots.plan_rectangles import CLASS_COLOURS, OTHERS_COLOUR, TensorClasses
from gpu_runtime.fitting.fit_answer import FitAnswer, FitPage
from gpu_runtime.fitting.fit_report import fit_notes, fit_sections, peak_line
from gpu_runtime.fitting.live_peak import Kind, kind_of
from gpu_runtime.fitting.rank_fit import LIVE, RankFit
from instances.traces.allocation_trace import AllocationTrace, iteration_window
from instances.traces.trace_requests import requests_of_trace
from planners.files.output_file import write_output
from planners.model.bounds import lifetime_bound
from planners.model.columns import IntColumn
from planners.model.online_result import OnlineResult
from planners.model.plan import Plan, feasible
from planners.model.problem import Problem
from planners.online.online_run import run_online
from planners.registry import ChosenOnline

MAP = "map"


def write_fit_page(answer: FitAnswer, path: Path) -> None:
    """Write the page of an answer."""
    write_output(path, fit_page(answer).encode())


def fit_page(answer: FitAnswer) -> str:
    """Return the page of an answer."""
    worst = answer.worst
    title, _, facts = peak_line(worst).partition(": ")
    notes = fit_notes(worst, answer.found)
    return render_page(
        "fit.html",
        {MAP: map_of(place_step(worst), list(Kind))},
        title=title,
        about=facts.split("; "),
        marked="the moment of the most live bytes",
        mapped="Memory map of the step of the peak",
        answer="" if worst.memory is None else notes.pop(),
        sections=list(fit_sections(answer)),
        notes=notes,
    )


@dataclass(frozen=True)
class PlacedStep:
    """All blocks of some events of a trace, and where each allocator puts them."""

    problem: Problem
    plans: list[MappedPlan]
    kinds: list[str]
    # The step of the problem that a line marks.
    moment: int


def place_step(fit: RankFit) -> PlacedStep:
    """Replay a trace under the allocators of a fit, and return the step of its peak."""
    trace, peak = fit.traced.trace, fit.peak
    begin, end = iteration_window(trace, peak.step - 1) if peak.step else (0, trace.event_count)
    labels = ",".join(label for label in fit.labels if label != LIVE)
    return place_events(
        trace, (begin, end, peak.event), lambda request: kind_of(trace, request, peak.event), labels
    )


def place_events(
    trace: AllocationTrace,
    window: tuple[int, int, int],
    kind: Callable[[int], str],
    allocators: Sequence[ChosenOnline] | str,
) -> PlacedStep:
    """Replay a trace under allocators, and return its blocks of a window: begin, end, moment."""
    begin, end, moment = window
    asked = np.flatnonzero(trace.size > 0)
    # A replay has the requests of more than 0 bytes. As in the live peak, a block ends when the
    # program frees it: planned memory may then reuse it, in the order of the streams.
    replayed = np.flatnonzero((trace.alloc[asked] < end) & (trace.free_requested[asked] > begin))
    chosen = asked[replayed]
    kinds = [kind(request) for request in chosen.tolist()]
    names = map(trace.module_of, chosen.tolist())
    start = np.maximum(trace.alloc[chosen], begin) - begin
    problem = Problem(
        trace.size[chosen],
        start,
        np.maximum(np.minimum(trace.free_requested[chosen], end) - begin, start + 1),
        tensor_name=[name or kind for name, kind in zip(names, kinds, strict=True)],
        name=trace.name,
    )
    plans = [
        MappedPlan(row.label, feasible(Plan.of(problem, _offsets(row.result)[replayed])))
        for row in run_online(requests_of_trace(trace), allocators).rows
        if row.result is not None and len(row.result.addresses)
    ]
    return PlacedStep(problem, plans, kinds, moment - begin)


def map_of(step: PlacedStep, labels: Sequence[str]) -> UIElement:
    """Return the map of placed blocks, coloured by their kinds, of which `labels` lists all."""
    numbers = np.array([labels.index(kind) for kind in step.kinds], dtype=np.int64)
    colours = [*CLASS_COLOURS[: len(labels) - 1], OTHERS_COLOUR]
    classes = TensorClasses("kind", numbers, colours, labels)
    bounds = [lifetime_bound(step.problem)]
    return memory_map(step.problem, step.plans, bounds, MAP, first=classes, moment=step.moment)


def _offsets(result: OnlineResult) -> IntColumn:
    """Return the addresses of blocks with the gaps between segments closed."""
    segments = result.segments[np.argsort(result.segments[:, 1], kind="stable")]
    begin, end = segments[:, 1], np.maximum.accumulate(segments[:, 1] + segments[:, 2])
    gap = np.maximum(begin - np.append(begin[:1], end[:-1]), 0)
    behind = np.searchsorted(begin, result.addresses, side="right") - 1
    offsets: IntColumn = result.addresses - begin[0] - np.cumsum(gap)[behind]
    return offsets


FIT_PAGE = FitPage(write_fit_page, (".html", ".htm"))
