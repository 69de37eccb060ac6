"""The page of an explanation: its tables, what to do, and a memory map up to its moment."""

from __future__ import annotations

from pathlib import Path

from evaluation.pages.fit_page import MAP, PlacedStep, map_of, place_events
from evaluation.pages.html_page import render_page
from gpu_runtime.explaining.explanation import UNTOLD, Explanation, ExplanationPage
from gpu_runtime.explaining.explanation_report import last_lines, sections_of
from gpu_runtime.explaining.other_allocators import PLANNED
from instances.formats.call_frames import BETWEEN
from planners.files.output_file import write_output
from planners.registry import ONLINE_ALLOCATORS

# Most requests on a map, the last ones of a history; a browser draws some 20,000.
MOST_MAPPED = 10_000


def write_explanation_page(explanation: Explanation, path: Path) -> None:
    """Write the page of an explanation; without a history it has no map."""
    sections = list(sections_of(explanation))
    maps = {}
    if explanation.replays is not None:
        step = place_history(explanation)
        maps[MAP] = map_of(step, sorted(set(step.kinds)))
    page = render_page(
        "fit.html",
        maps,
        title=explanation.name,
        about=sections[0].above.splitlines(),
        answer="",
        marked="the last event",
        mapped="Memory map of the last requests",
        sections=sections,
        notes=last_lines(explanation),
    )
    write_output(path, page.encode())


def place_history(explanation: Explanation) -> PlacedStep:
    """Replay the history as it was and under planned memory, and return its last requests."""
    moment = explanation.moment
    trace, end = moment.trace, moment.trace.event_count
    begin = int(trace.alloc[-MOST_MAPPED]) if trace.request_count > MOST_MAPPED else 0
    as_it_was = ONLINE_ALLOCATORS.choose_exactly(moment.allocator, {"settings": moment.settings})
    return place_events(
        trace,
        (begin, end, end - 1),
        lambda request: trace.module_of(request).partition(BETWEEN)[0] or UNTOLD,
        [as_it_was, ONLINE_ALLOCATORS.choose_exactly(PLANNED, {})],
    )


EXPLANATION_PAGE = ExplanationPage(write_explanation_page, (".html", ".htm"))
