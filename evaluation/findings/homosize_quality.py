"""How near the optimum spatio-temporal planning comes, problem by problem, and beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evaluation.findings.recorded_problems import (
    GREEDY,
    NO_FUSION,
    NO_PHASES,
    OURS,
    PAPER,
    PlannerRuns,
    RecordedProblem,
    quality_problems,
    recorded_problems,
)
from evaluation.report.figure_texts import percent, seconds
from evaluation.report.gap_tables import NOTHING, cell
from evaluation.report.slots import PageMaterial, slot
from planners.text.byte_units import exact_bytes, three_digits
from planners.text.table import Row, Table, columns_of

GIB, MIB = 1 << 30, 1 << 20
OTHERS = (PAPER, NO_FUSION, NO_PHASES)

# Requests, seconds of its planners and fragmentation of their pools, percent.
PublicCode = Mapping[str, Any]


@slot("homosize-quality-table")
def _quality_table(material: PageMaterial) -> str:
    headings = ["trace", "part", "persistent", "requests", "bound (bytes)", GREEDY, OURS,
                "seconds", "found by"]  # fmt: skip
    for other in OTHERS:
        headings += [other, "seconds"]
    rows = [Row(_quality_cells(problem)) for problem in quality_problems(material.records)]
    return _markdown(headings, rows, left=3)


def _quality_cells(problem: RecordedProblem) -> list[str]:
    ours = problem.runs[OURS]
    statistics = ours.records[-1].statistics
    cells = [
        cell(problem.trace),
        "static part" if problem.static else "all",
        "in" if problem.persistent else "out",
        f"{problem.requests:,}",
        exact_bytes(problem.bound),
        efficiency_cell(problem, GREEDY),
        efficiency_cell(problem, OURS),
        took(ours),
        f"{statistics.get('found_by', NOTHING)} ({statistics.get('attempts', NOTHING)})",
    ]
    for other in OTHERS:
        its = problem.runs.get(other)
        has_plan = its is not None and its.peak is not None
        cells += [
            efficiency_cell(problem, other),
            seconds(its.worst_seconds) if its is not None and has_plan else NOTHING,
        ]
    return cells


@slot("public-code-table")
def _public_code_table(material: PageMaterial) -> str:
    rows = []
    for problem, theirs in beside_public_code(material):
        ours, reached = problem.runs[OURS], problem.efficiency(OURS)
        rows.append(
            Row((
                cell(problem.trace), f"{problem.requests:,}", took(ours),
                NOTHING if reached is None else percent(1 - reached),
                f"{theirs['requests']:,}", " / ".join(f"{each:g}" for each in theirs["seconds"]),
                " / ".join(f"{each:g} %" for each in theirs["fragmentation"]) or NOTHING,
                f"{times_faster(problem, theirs):,.0f}x",
            ))
        )  # fmt: skip
    return _markdown(
        ["trace", "requests", "seconds", "fragmentation", "its requests", "its seconds",
         "its fragmentation", "ratio"],
        rows,
    )  # fmt: skip


def beside_public_code(material: PageMaterial) -> list[tuple[RecordedProblem, PublicCode]]:
    """Return the problems that the paper's public code planned as well, and what it took."""
    known = material.words.get("public-code", {})
    return [
        (problem, known[problem.trace])
        for problem in quality_problems(material.records)
        if problem.trace in known and not problem.persistent and not problem.static
    ]


def times_faster(problem: RecordedProblem, theirs: PublicCode) -> float:
    """Return how often our worst run fits into the faster of the public code's planners."""
    fastest: float = min(theirs["seconds"])
    return fastest / problem.runs[OURS].worst_seconds


@slot("pytorch-peaks-table")
def _pytorch_peaks_table(material: PageMaterial) -> str:
    known = material.words.get("reported", {})
    rows = []
    for problem in quality_problems(material.records):
        if problem.trace not in known or not problem.persistent or problem.static:
            continue
        its = known[problem.trace]
        cells = [cell(problem.trace)]
        cells += [f"{its[name]:.3f}" for name in ("requested", "allocated", "reserved")]
        cells.append(f"{its['requested'] / its['reserved']:.1%}".replace("%", " %"))
        for planner in (PAPER, OURS):
            runs = problem.runs.get(planner)
            peak = None if runs is None else runs.peak
            cells += [NOTHING if peak is None else f"{peak / GIB:.3f}",
                      efficiency_cell(problem, planner)]  # fmt: skip
        rows.append(Row(cells))
    return _markdown(
        ["trace", "requested (GiB)", "allocated (GiB)", "reserved (GiB)", "requested / reserved",
         "pool of the paper's planner (GiB)", "efficiency", "pool of ours (GiB)", "efficiency"],
        rows,
    )  # fmt: skip


@slot("homosize-growth-table")
def _growth_table(material: PageMaterial) -> str:
    problems = recorded_problems(material.records)
    longer = {problem.trace for problem in problems if problem.microbatches > 1}
    rows = []
    for problem in problems:
        is_once = problem.trace in longer and problem.persistent and not problem.static
        ours = problem.runs.get(OURS)
        if ours is None or not (is_once or problem.family):
            continue
        paper = problem.runs.get(PAPER)
        rows.append(
            Row((
                _growth_name(problem), f"{problem.requests:,}", took(ours),
                f"{ours.middle_seconds / problem.requests * 1e6:.2f}",
                three_digits(ours.added_bytes / MIB), efficiency_cell(problem, OURS),
                NOTHING if paper is None else seconds(paper.worst_seconds),
                efficiency_cell(problem, PAPER),
            ))
        )  # fmt: skip
    rows.sort(key=lambda row: (":" in row.cells[0], int(row.cells[1].replace(",", ""))))
    return _markdown(
        ["problem", "requests", "ours (s)", "us a request", "MiB", "efficiency",
         "the paper's planner (s)", "efficiency"],
        rows,
    )  # fmt: skip


def _growth_name(problem: RecordedProblem) -> str:
    name = cell(problem.trace)
    return name if problem.family else f"{name}, {problem.microbatches} x its last microbatch"


def efficiency_cell(problem: RecordedProblem, planner: str) -> str:
    """Return the efficiency of a planner on a problem, or how its run ended."""
    runs = problem.runs.get(planner)
    if runs is None:
        return NOTHING
    share = problem.efficiency(planner)
    return runs.ending if share is None else percent(share)


def took(runs: PlannerRuns) -> str:
    """Return the median of the seconds and, where there are several, the worst in brackets."""
    middle = seconds(runs.middle_seconds)
    return f"{middle} ({seconds(runs.worst_seconds)})" if len(runs.seconds) > 1 else middle


def _markdown(headings: Sequence[str], rows: Sequence[Row], left: int = 1) -> str:
    return Table(columns_of(*headings, left=left), rows).markdown() if rows else ""
