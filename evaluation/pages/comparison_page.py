"""The page of one comparison: its tables, and a memory map in which each plan can be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.pages.html_page import render_page
from evaluation.pages.memory_map import MappedPlan, memory_map
from evaluation.plots.plan_rectangles import require_time
from planners.compare.comparison import Comparison, ComparisonRow
from planners.compare.plots import ComparisonPage
from planners.compare.report import comparison_table, instance_line, is_best, notes
from planners.files.output_file import write_output
from planners.model.problem_fields import MOST_SHOWN_NAME
from planners.online.online_report import online_notes, online_table, requests_line
from planners.online.online_run import OnlineRun
from planners.text.plain_text import one_line

MAP = "map"


def write_comparison_page(
    comparison: Comparison, rows: Sequence[ComparisonRow], online: OnlineRun | None, path: Path
) -> None:
    """Write the page of a comparison; some row must have a plan."""
    require_time(comparison.problem)
    text = comparison_page(comparison, rows, online)
    write_output(path, text.encode())


def comparison_page(
    comparison: Comparison, rows: Sequence[ComparisonRow], online: OnlineRun | None = None
) -> str:
    """Return the page of a comparison, see :func:`write_comparison_page`."""
    mapped = [row for row in rows if row.result.valid and row.result.plan is not None]
    mapped.sort(key=lambda row: not is_best(comparison, row))
    plans = [MappedPlan(row.label, row.result) for row in mapped]
    return render_page(
        "comparison.html",
        {MAP: memory_map(comparison.problem, plans, comparison.bounds, MAP)} if plans else {},
        title=one_line(comparison.problem.name, MOST_SHOWN_NAME),
        about=instance_line(comparison).partition(": ")[2].split("; "),
        table=comparison_table(comparison, rows),
        map_of_row={rows.index(row): place for place, row in enumerate(mapped)},
        notes=notes(comparison, rows),
        online=None if online is None else online_table(online),
        online_about="" if online is None else requests_line(online.requests),
        online_notes=[] if online is None else online_notes(online),
    )


COMPARISON_PAGE = ComparisonPage(write_comparison_page, (".html", ".htm"), require_time)
